package managedresource

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
)

// soak checks whether the controller grows while everything around it changes continuously.
type soak struct {
	// length is the duration of the changes, interval is the time between two samples.
	length, interval time.Duration
	// churned sets are created, changed and deleted; steady ones stay, and their objects are changed.
	churned, steady int
	// secrets is the number of foreign Secrets at a time.
	secrets int
}

// rolling is how many sets have a Deployment with repeated rollouts.
const rolling = 3

func (s soak) measure(r *harness.Run) {
	var samples []sample
	defer func() { r.Add(growthRows(samples, s.length)) }()
	w := workload{size: size{sets: s.churned + s.steady + rolling, objects: objectsPerTemplate}, calm: time.Second}
	open(r, setup{
		Setup: harness.Setup{ControllerManager: true, Scheduler: true, KWOK: true}, unaudited: true, profiling: true,
		controllers: "garbageCollector: {enabled: true, syncPeriod: 1m}",
	}, w).changeAll(s, &samples)
}

// changeAll appends the samples while it runs. At the end all remaining sets must be applied.
func (b *bench) changeAll(s soak, samples *[]sample) {
	b.createNamespaces()
	b.startController()
	c := &churn{bench: b, soak: s}
	b.Step("creating %d steady sets, %d that roll out, %d foreign Secrets", s.steady, rolling, s.secrets)
	c.begin()
	b.Step("everything changes from now on, for %s", s.length)
	changing, cancel := context.WithCancel(b.Ctx)
	defer cancel()
	group, changing := errgroup.WithContext(changing)
	actors := c.actors()
	for _, a := range actors {
		group.Go(func() error { return a.run(changing) })
	}
	group.Go(func() error {
		defer cancel()
		return b.sampleAll(changing, s, samples)
	})
	err := group.Wait()
	b.Detail("done meanwhile: %s", tally(actors))
	b.Check(err)
	b.Check(context.Cause(b.Ctx)) // an interruption is not an error of the actors
	b.awaitAllApplied()
	b.Step("soak: over; all sets that are left are applied")
}

// sampleAll takes samples of the controller until the time is over.
func (b *bench) sampleAll(ctx context.Context, s soak, samples *[]sample) error {
	begin := time.Now()
	profiled := false
	for {
		at := time.Since(begin)
		if at >= s.length {
			return b.profileGrowth("end")
		}
		taken, err := b.sample(ctx, at)
		if err != nil {
			return err
		}
		*samples = append(*samples, taken)
		b.Step("soak, %s: %s", at.Round(time.Second), taken)
		if !profiled && at >= s.length/4 {
			profiled = true
			if err := b.profileGrowth("quarter"); err != nil {
				return err
			}
		}
		if err := local.Pause(ctx, min(s.interval, s.length-at)); err != nil {
			return err
		}
	}
}

// sample first runs a garbage collection, so that the heap contains only memory in use.
func (b *bench) sample(ctx context.Context, at time.Duration) (sample, error) {
	if _, err := local.Get(ctx, http.DefaultClient, b.controller.URL("/debug/pprof/heap?gc=1")); err != nil {
		return sample{}, fmt.Errorf("collect garbage of the controller: %w", err)
	}
	metrics, err := b.controller.ReadMetrics(ctx)
	if err != nil {
		return sample{}, err
	}
	return readSample(metrics, at)
}

// profileGrowth saves profiles of the heap and the goroutines, for a comparison of two times.
func (b *bench) profileGrowth(moment string) error {
	return errors.Join(
		b.SaveProfile(b.controller, "/debug/pprof/heap?gc=1", "soak-"+moment+".heap"),
		b.SaveProfile(b.controller, "/debug/pprof/goroutine", "soak-"+moment+".goroutine"),
	)
}

// awaitAllApplied waits until every set that is not being deleted is applied.
func (b *bench) awaitAllApplied() {
	b.Await(2*time.Minute, "every set to be applied in the end", func(ctx context.Context) error {
		list, err := b.source.objects.Resource(managedResources).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, set := range list.Items {
			if set.GetDeletionTimestamp() != nil {
				return fmt.Errorf("%s is still being deleted", set.GetName())
			}
			if applied(set.Object) == "" {
				return fmt.Errorf("%s is not: %v", set.GetName(), set.Object["status"])
			}
		}
		return nil
	})
}
