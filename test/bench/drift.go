package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/test/bench/gauge"
)

const (
	// somebodyElse is the field manager that changes objects.
	somebodyElse = "somebody-else"
	spoiledData  = "spoiled"
	repairLimit  = time.Minute
	// repairPause gives the control plane's own controllers time to react, and separates repairs.
	repairPause = 150 * time.Millisecond
)

// drift changes objects, one after the other: every second one is edited (a ConfigMap), the others are deleted.
func (b *bench) drift(ctx context.Context, f *figures) error {
	if err := b.settle(ctx); err != nil {
		return err
	}
	all := subjects(oursRun)
	for i := range all {
		all[i].full = all[i].resource == configMaps
	}
	w, err := b.follow(ctx, all...)
	if err != nil {
		return err
	}
	defer w.stop()
	edited, deleted := spoilable(b.size, b.repairs)
	place, err := b.mark()
	if err != nil {
		return err
	}
	profiled := b.profile(ctx, "drift", 5*time.Second)
	for i := range min(len(edited), len(deleted)) {
		for _, repair := range []func() (time.Duration, error){
			func() (time.Duration, error) { return b.repairEdited(ctx, w, edited[i]) },
			func() (time.Duration, error) { return b.repairDeleted(ctx, w, deleted[i]) },
		} {
			took, err := repair()
			if err != nil {
				return fmt.Errorf("repair drift: %w", err)
			}
			f.repairs = append(f.repairs, took)
			if err := gauge.Pause(ctx, repairPause); err != nil {
				return err
			}
		}
	}
	profiled()
	b.report.step("drift: %d repairs, median %s, max %s", len(f.repairs), seconds(median(f.repairs)), seconds(longest(f.repairs)))
	return b.tellRequests(place)
}

// spoilable returns different objects to edit and to delete, half of the number each.
func spoilable(s size, repairs int) (edited, deleted []item) {
	half := (repairs + 1) / 2
	for i := range shuffled(s) {
		switch {
		case len(edited) < half && i.resource == configMaps:
			edited = append(edited, i)
		case len(deleted) < half:
			deleted = append(deleted, i)
		case len(edited) == half:
			return edited, deleted
		}
	}
	return edited, deleted
}

// repairEdited measures from the response to the edit until a watch shows the former data.
func (b *bench) repairEdited(ctx context.Context, w *follower, i item) (time.Duration, error) {
	patch := fmt.Sprintf(`{"data":{%q:%q}}`, dataKey, spoiledData)
	_, err := b.target.objects.Resource(i.resource).Namespace(i.object.GetNamespace()).Patch(ctx, i.object.GetName(),
		types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: somebodyElse})
	if err != nil {
		return 0, fmt.Errorf("edit %s: %w", describe(i.object), err)
	}
	begin := b.report.clock.Now()
	spoiled := false
	end, err := w.until(ctx, repairLimit, "the edited "+describe(i.object)+" to be restored", func(e event) bool {
		if e.key() != i.key() {
			return false
		}
		says := textOf(e.content(), "data", dataKey)
		restored := spoiled && says == dataBefore
		spoiled = spoiled || says == spoiledData
		return restored
	})
	return max(0, end.Sub(begin)), err
}

// repairDeleted measures from the response to the deletion until a watch shows another object of that name.
func (b *bench) repairDeleted(ctx context.Context, w *follower, i item) (time.Duration, error) {
	c := b.target.objects.Resource(i.resource).Namespace(i.object.GetNamespace())
	before, err := c.Get(ctx, i.object.GetName(), metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", describe(i.object), err)
	}
	background := metav1.DeletePropagationBackground
	err = c.Delete(ctx, i.object.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil {
		return 0, fmt.Errorf("delete %s: %w", describe(i.object), err)
	}
	begin := b.report.clock.Now()
	end, err := w.until(ctx, repairLimit, "the deleted "+describe(i.object)+" to be restored", func(e event) bool {
		return e.key() == i.key() && !e.deleted && e.object.GetUID() != before.GetUID()
	})
	return max(0, end.Sub(begin)), err
}
