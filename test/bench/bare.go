package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// workers is how many concurrent requests the bare client sends, and the client that creates our sets.
const workers = 16

// parallel calls do for every number below n, in that order, with as many goroutines as there are workers.
func parallel(ctx context.Context, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(workers, n) {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := do(ctx, i); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// floor is the time of the bare client to create the objects of all sets, and to delete them until the last one is gone.
type floor struct{ create, remove time.Duration }

// measureFloor uses its own namespaces and leaves none of its objects.
func (b *bench) measureFloor(ctx context.Context, round int) (floor, error) {
	if err := b.settle(ctx); err != nil {
		return floor{}, err
	}
	var items []item
	for set := range b.size.sets {
		items = append(items, itemsOf(floorRun, set, b.size.objects, dataBefore)...)
	}
	var f floor
	place, err := b.mark()
	if err != nil {
		return floor{}, err
	}
	usage := b.usage()
	begin := b.report.clock.Now()
	err = parallel(ctx, len(items), func(ctx context.Context, i int) error {
		return create(ctx, b.target.bare, items[i])
	})
	if err != nil {
		return floor{}, err
	}
	f.create = b.report.clock.Since(begin)
	b.report.step("floor %d: a bare client created %d objects in %s (%.0f/s)", round, len(items), seconds(f.create), float64(len(items))/f.create.Seconds())
	b.report.detail("CPU: %s", b.usage().since(usage))
	requests, err := b.requests(place, bareUser)
	if err != nil {
		return floor{}, err
	}
	b.report.detail("requests: %s", pressure(requests))
	err = b.settle(ctx)
	if err != nil {
		return floor{}, err
	}
	usage = b.usage()
	if f.remove, err = b.removeFloor(ctx, items); err != nil {
		return floor{}, err
	}
	b.report.step("floor %d: it deleted them, and they were gone, in %s (%.0f/s)", round, seconds(f.remove), float64(len(items))/f.remove.Seconds())
	b.report.detail("CPU: %s", b.usage().since(usage))
	return f, nil
}

func (b *bench) removeFloor(ctx context.Context, items []item) (time.Duration, error) {
	f, err := b.follow(ctx, subjects(floorRun)...)
	if err != nil {
		return 0, err
	}
	defer f.stop()
	begin := b.report.clock.Now()
	err = parallel(ctx, len(items), func(ctx context.Context, i int) error {
		o := items[i].object
		c := b.target.bare.Resource(items[i].resource).Namespace(o.GetNamespace())
		if failure := c.Delete(ctx, o.GetName(), deleteOptions(items[i].resource)); failure != nil {
			return fmt.Errorf("delete %s: %w", describe(o), failure)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	end, err := f.until(ctx, phaseLimit, "the objects of the bare client to be gone", untilGone(len(items)))
	return end.Sub(begin), err
}

// subjects returns the watches for the objects of a run.
func subjects(run string) []subject {
	kinds := managedKinds()
	all := make([]subject, 0, len(kinds)+1) // callers that wait for sets too append them
	for _, resource := range kinds {
		all = append(all, subject{resource: resource, selector: runLabel + "=" + run})
	}
	return all
}

// untilGone returns a function that returns true for the last of n deletions.
func untilGone(n int) func(event) bool {
	return func(e event) bool {
		if e.deleted {
			n--
		}
		return n == 0
	}
}

func create(ctx context.Context, c dynamic.Interface, i item) error {
	if _, err := c.Resource(i.resource).Namespace(i.object.GetNamespace()).Create(ctx, i.object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create %s: %w", describe(i.object), err)
	}
	return nil
}

func describe(o *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
}
