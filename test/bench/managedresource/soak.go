package managedresource

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/espalier-dev/espalier/api/managedresources"
	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
)

// soak checks whether memory and goroutines of the controller grow while the cluster changes continuously.
type soak struct {
	// length is the duration of the changes.
	length time.Duration
	// churned is the number of sets that are created, changed and deleted. steady is the number of sets that stay, and whose objects are
	// changed.
	churned, steady int
	// secrets is the number of foreign Secrets at a time.
	secrets int
}

// rolling is how many sets have a Deployment with repeated rollouts.
const rolling = 3

func (s *soak) measure(r *harness.Run) {
	var samples []sample
	defer func() { r.Add(growthRows(samples, s.length)) }()
	w := workload{size: size{sets: s.churned + s.steady + rolling, objects: objectsPerTemplate}, calm: time.Second}
	b := open(r, setup{
		parts: local.Options{ControllerManager: true, Scheduler: true, KWOK: true}, unaudited: true,
		controllers: "garbageCollector: {enabled: true, syncPeriod: 1m}",
	}, w)
	b.createNamespaces()
	b.startController()
	b.Step("creating %d steady sets, %d that roll out, %d foreign Secrets", s.steady, rolling, s.secrets)
	c := &churn{bench: b, soak: *s}
	c.begin()
	b.Step("everything changes from now on, for %s", s.length)
	actors := c.actors()
	tasks := append(make([]func(), 0, len(actors)+1), func() { b.sampleAll(s.length, &samples) })
	for _, a := range actors {
		tasks = append(tasks, func() { b.Step("soak: %d %s", b.repeat(s.length, a), a.name) })
	}
	b.Together(tasks...)
	b.awaitAllApplied()
	b.Step("soak: over; all sets that are left are applied")
}

// sampleAll takes samples of the controller until length has passed.
func (b *bench) sampleAll(length time.Duration, samples *[]sample) {
	interval := min(30*time.Second, length/20)
	begin := time.Now()
	for at := time.Duration(0); at < length; at = time.Since(begin) {
		// This request triggers a garbage collection of the process first, so that the heap contains only memory in use.
		_, err := local.Get(b.Ctx, http.DefaultClient, b.controller.URL("/debug/pprof/heap?gc=1"))
		b.Checkf(err, "collect garbage of the controller")
		taken, err := readSample(b.controller.Metrics(), at)
		b.Check(err)
		*samples = append(*samples, taken)
		b.Step("soak, %s: %s", at.Round(time.Second), taken)
		b.Pause(interval)
	}
}

// awaitAllApplied waits until every set is applied, and none is being deleted.
func (b *bench) awaitAllApplied() {
	b.Await(2*time.Minute, "every set to be applied in the end", func(context.Context) error {
		for _, set := range b.managedResources() {
			if set.DeletionTimestamp != nil {
				return fmt.Errorf("%s is still being deleted", set.Name)
			}
			if err := managedresources.CheckApplied(&set); err != nil {
				return err
			}
		}
		return nil
	})
}
