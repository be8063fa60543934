package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// textOf returns "" if there is no such field.
func textOf(content map[string]any, fields ...string) string {
	text, _, _ := unstructured.NestedString(content, fields...)
	return text
}

// applied returns the checksum that the set was applied with, or "" while it is not applied.
func applied(set map[string]any) string {
	observed, _, _ := unstructured.NestedInt64(set, "status", "observedGeneration")
	generation, _, _ := unstructured.NestedInt64(set, "metadata", "generation")
	if observed != generation {
		return ""
	}
	conditions, _, _ := unstructured.NestedSlice(set, "status", "conditions")
	for _, entry := range conditions {
		if c, ok := entry.(map[string]any); ok && c["type"] == "ResourcesApplied" && c["status"] == "True" {
			return textOf(set, "status", "secretsDataChecksum")
		}
	}
	return ""
}

// both waits for the effect in the watches while it runs the cause; the time starts before the cause.
func (b *bench) both(ctx context.Context, cause func(context.Context) error, effect func(context.Context) (time.Time, error)) (time.Duration, error) {
	begin := b.report.clock.Now()
	var end time.Time
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return cause(ctx) })
	group.Go(func() (err error) {
		end, err = effect(ctx)
		return err
	})
	err := group.Wait()
	return end.Sub(begin), err
}

// converge measures from the first request that creates a set until the last set is applied.
func (b *bench) converge(ctx context.Context, f *figures) error {
	if err := b.settle(ctx); err != nil {
		return err
	}
	data, err := b.secretsData(dataBefore)
	if err != nil {
		return err
	}
	w, err := b.follow(ctx, subject{resource: managedResources, full: true})
	if err != nil {
		return err
	}
	defer w.stop()
	place, err := b.mark()
	if err != nil {
		return err
	}
	usage := b.usage()
	profiled := b.profile(ctx, "converge", f.createFloor())
	missing := b.size.sets
	done := map[string]bool{}
	var created time.Duration
	begin := b.report.clock.Now()
	f.converge, err = b.both(ctx, func(ctx context.Context) error {
		defer func() { created = b.report.clock.Since(begin) }()
		return b.createSets(ctx, data)
	}, func(ctx context.Context) (time.Time, error) {
		return w.until(ctx, phaseLimit, "all sets to be applied", func(e event) bool {
			if !done[e.object.GetName()] && applied(e.content()) != "" {
				done[e.object.GetName()] = true
				missing--
			}
			return missing == 0
		})
	})
	if err != nil {
		return fmt.Errorf("converge: %w; %d of %d sets are not applied", err, missing, b.size.sets)
	}
	used := b.usage().since(usage)
	profiled()
	b.report.step("converge: all sets applied after %s (the last was created after %s)", seconds(f.converge), seconds(created))
	b.report.detail("CPU: %s", used)
	return errors.Join(b.tellRequests(place), b.requireObjects(ctx))
}

// tellRequests prints the requests of the controller since then.
func (b *bench) tellRequests(place mark) error {
	requests, err := b.requests(place, controllerUser)
	if err != nil {
		return err
	}
	b.report.detail("requests: %s", pressure(requests))
	b.report.detail("requests: %s", summary(requests, counted))
	return nil
}

// secretsData renders the Secret of each set.
func (b *bench) secretsData(data string) ([][]byte, error) {
	all := make([][]byte, 0, b.size.sets)
	for set := range b.size.sets {
		rendered, err := secretData(itemsOf(oursRun, set, b.size.objects, data))
		if err != nil {
			return nil, err
		}
		all = append(all, rendered)
	}
	return all, nil
}

func (b *bench) createSets(ctx context.Context, data [][]byte) error {
	return parallel(ctx, b.size.sets, func(ctx context.Context, set int) error {
		secret, managedResource := setOf(set, data[set])
		if err := create(ctx, b.source.bare, item{secrets, secret}); err != nil {
			return err
		}
		return create(ctx, b.source.bare, item{managedResources, managedResource})
	})
}

// requireObjects checks that the sets have created all their objects.
func (b *bench) requireObjects(ctx context.Context) error {
	found := 0
	for _, resource := range managedKinds() {
		list, err := b.target.metadata.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: runLabel + "=" + oursRun})
		if err != nil {
			return fmt.Errorf("list %s: %w", resource.Resource, err)
		}
		found += len(list.Items)
	}
	if found != b.size.total() {
		return fmt.Errorf("the sets are said to be applied, but %d of their %d objects are there", found, b.size.total())
	}
	return nil
}

// update changes one ConfigMap in the Secret of every set, and measures until all are seen with the new data and all sets are applied with
// another checksum.
func (b *bench) update(ctx context.Context, f *figures) error {
	if err := b.settle(ctx); err != nil {
		return err
	}
	data, err := b.secretsData(dataAfter)
	if err != nil {
		return err
	}
	before, err := b.checksums(ctx)
	if err != nil {
		return err
	}
	w, err := b.follow(ctx, subject{resource: managedResources, full: true},
		subject{resource: configMaps, selector: runLabel + "=" + oursRun, full: true})
	if err != nil {
		return err
	}
	defer w.stop()
	place, err := b.mark()
	if err != nil {
		return err
	}
	usage := b.usage()
	profiled := b.profile(ctx, "update", time.Second)
	sent := make([]time.Time, b.size.sets)
	t := newUpdateTracker(b.size.sets, before)
	f.updateTotal, err = b.both(ctx, func(ctx context.Context) error {
		return parallel(ctx, b.size.sets, func(ctx context.Context, set int) error {
			sent[set] = b.report.clock.Now()
			return b.patchSecret(ctx, sourceNamespace, set, data[set])
		})
	}, func(ctx context.Context) (time.Time, error) {
		return w.until(ctx, phaseLimit, "the change to be applied in all sets", t.see)
	})
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	used := b.usage().since(usage)
	profiled()
	for set, begin := range sent {
		f.updates = append(f.updates, t.done[setName(set)].Sub(begin))
	}
	b.report.step("update: one object changed in every set, all applied after %s (median of a set %s)", seconds(f.updateTotal), seconds(median(f.updates)))
	b.report.detail("CPU: %s", used)
	return b.tellRequests(place)
}

func (b *bench) checksums(ctx context.Context) (map[string]string, error) {
	list, err := b.source.objects.Resource(managedResources).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list ManagedResources: %w", err)
	}
	checksums := map[string]string{}
	for _, set := range list.Items {
		checksums[set.GetName()] = applied(set.Object)
	}
	return checksums, nil
}

func (b *bench) patchSecret(ctx context.Context, namespace string, set int, data []byte) error {
	patch := fmt.Sprintf(`{"data":{%q:%q}}`, manifestKey, base64.StdEncoding.EncodeToString(data))
	_, err := b.source.bare.Resource(secrets).Namespace(namespace).Patch(ctx, setName(set), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("change Secret %s: %w", setName(set), err)
	}
	return nil
}

// updateTracker records which sets have both results of an update.
type updateTracker struct {
	before        map[string]string
	configMap     map[string]bool
	applied       map[string]bool
	done          map[string]time.Time
	numberMissing int
}

func newUpdateTracker(sets int, before map[string]string) *updateTracker {
	return &updateTracker{before, map[string]bool{}, map[string]bool{}, map[string]time.Time{}, sets}
}

// see processes an event and returns true for the one that completes the last set.
func (t *updateTracker) see(e event) bool {
	name := e.object.GetName()
	if e.resource == configMaps {
		if textOf(e.content(), "data", dataKey) != dataAfter {
			return false
		}
		name = e.object.GetLabels()["app.kubernetes.io/instance"]
		t.configMap[name] = true
	} else if checksum := applied(e.content()); checksum != "" && checksum != t.before[name] {
		t.applied[name] = true
	}
	if _, complete := t.done[name]; !complete && t.configMap[name] && t.applied[name] {
		t.done[name] = e.at
		t.numberMissing--
	}
	return t.numberMissing == 0
}

// remove deletes all sets and measures until the last set and the last object are gone.
func (b *bench) remove(ctx context.Context, f *figures) error {
	if err := b.settle(ctx); err != nil {
		return err
	}
	w, err := b.follow(ctx, append(subjects(oursRun), subject{resource: managedResources})...)
	if err != nil {
		return err
	}
	defer w.stop()
	place, err := b.mark()
	if err != nil {
		return err
	}
	usage := b.usage()
	profiled := b.profile(ctx, "delete", f.floors[len(f.floors)-1].remove)
	f.remove, err = b.both(ctx, func(ctx context.Context) error {
		return parallel(ctx, b.size.sets, func(ctx context.Context, set int) error {
			return b.deleteSet(ctx, set)
		})
	}, func(ctx context.Context) (time.Time, error) {
		return w.until(ctx, phaseLimit, "all sets and their objects to be gone", untilGone(b.size.sets+b.size.total()))
	})
	if err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	used := b.usage().since(usage)
	profiled()
	b.report.step("delete: all sets and their objects gone after %s", seconds(f.remove))
	b.report.detail("CPU: %s", used)
	return b.tellRequests(place)
}

func (b *bench) deleteSet(ctx context.Context, set int) error {
	if err := b.source.bare.Resource(managedResources).Namespace(sourceNamespace).Delete(ctx, setName(set), metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete ManagedResource %s: %w", setName(set), err)
	}
	return nil
}

// shuffled iterates over all objects of the sets in a pseudo-random order that is the same in every run.
func shuffled(s size) iter.Seq[item] {
	return func(yield func(item) bool) {
		for _, index := range rand.New(rand.NewPCG(uint64(s.sets), uint64(s.objects))).Perm(s.total()) {
			if !yield(itemOf(oursRun, index/s.objects, index%s.objects, dataBefore)) {
				return
			}
		}
	}
}
