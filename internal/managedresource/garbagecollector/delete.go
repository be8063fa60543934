package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/managedresource/status"
)

// delete deletes each unused object, unless the object has changed since the collector found it: the client that changed the object may
// need it. changed is true if objects were left for this reason.
func (c *Collector) delete(ctx context.Context, unused []candidate) (changed bool, err error) {
	var (
		mu       sync.Mutex
		deleted  []candidate
		failures []string
	)
	workqueue.ParallelizeUntil(context.WithoutCancel(ctx), *c.Own.MaxConcurrentRequests, len(unused), func(i int) {
		each := unused[i]
		err := c.deleteOne(ctx, each)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			c.Events.collected(each, len(deleted))
			deleted = append(deleted, each)
		case apierrors.IsNotFound(err):
		case apierrors.IsConflict(err):
			log.FromContext(ctx).V(1).Info("Spared an object that has changed", "object", each.String())
			changed = true
		default:
			failures = append(failures, fmt.Errorf("delete %s: %w", each, withRemedy(err)).Error())
		}
	})
	for kind, n := range count(deleted) {
		c.Metrics.collected.WithLabelValues(kind).Add(float64(n))
	}
	if len(deleted) > 0 {
		log.FromContext(ctx).Info("Deleted what nothing refers to", "objects", len(deleted), "withoutEvent", max(len(deleted)-maxEvents, 0))
	}
	return changed, notAll(failures)
}

func (c *Collector) deleteOne(ctx context.Context, unused candidate) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &unused.uid, ResourceVersion: &unused.version}}
	return c.Client.Resource(collectables()[unused.kind]).Namespace(unused.namespace).Delete(ctx, unused.name, options)
}

// notAll combines the failures of several deletions into one error, with the text that the specification requires.
func notAll(failures []string) error {
	if len(failures) == 0 {
		return nil
	}
	slices.Sort(failures)
	return errors.New("Could not delete all unused resources" + status.CountedErrors(failures))
}

// withRemedy adds to an error about a missing permission how to grant it.
func withRemedy(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; ClusterRole %s has the rights that garbage collection needs in the target cluster: bind it", err, roleName)
	}
	return err
}

// roleName is the name of the role that is generated from the markers above Collector.
const roleName = "espalier-managedresource-controller-target-garbagecollector"
