package garbagecollector

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Reasons of the Events that are sent about ConfigMaps and Secrets of the target.
const (
	// ReasonCollected: the object was deleted, because nothing refers to it.
	ReasonCollected = "GarbageCollected"
	// ReasonFound: the object would have been deleted, if the collector were not set to report only.
	ReasonFound = "GarbageFound"
)

// maxEvents is how many Events one run sends; the log tells how many it did not.
const maxEvents = 100

// Events tells, in the target cluster, what happened to ConfigMaps and Secrets.
type Events struct{ Recorder events.EventRecorder }

// collected tells of a deletion, unless enough has been told in this run.
func (e *Events) collected(deleted candidate, before int) {
	if before < maxEvents {
		e.Recorder.Eventf(deleted.reference(), nil, corev1.EventTypeNormal, ReasonCollected, "Delete", "%s", "Deleted: "+why(deleted))
	}
}

func (e *Events) found(unused candidate) {
	e.Recorder.Eventf(unused.reference(), nil, corev1.EventTypeNormal, ReasonFound, "Report", "%s", "Would be deleted, but garbage collection only reports: "+why(unused))
}

// why says why an object is not needed.
func why(unused candidate) string {
	return fmt.Sprintf("created at %s, labelled as garbage-collectable, and no reference annotation on a workload, ManagedResource or Prometheus in namespace %q names it",
		unused.created.UTC().Format(time.RFC3339), unused.namespace)
}

// report tells of each object once, in this run or, if there are too many, in one of the next.
func (c *Collector) report(ctx context.Context, unused []candidate) {
	reported, told, later := map[types.UID]bool{}, 0, 0
	for _, each := range unused {
		switch {
		case c.reported[each.uid]:
		case told < maxEvents:
			c.Events.found(each)
			told++
		default:
			later++
			continue
		}
		reported[each.uid] = true
	}
	c.reported = reported
	if told > 0 {
		log.FromContext(ctx).Info("Found what nothing refers to, and left it in place", "objects", len(unused), "new", told, "toldLater", later)
	}
}
