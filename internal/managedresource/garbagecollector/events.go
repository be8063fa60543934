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

// Reasons of the Events about ConfigMaps and Secrets of the target.
const (
	// ReasonCollected is a Normal Event about a ConfigMap or Secret: the garbage collector has deleted it, because no object referred to it.
	// The note says when the deleted object had been created.
	ReasonCollected = "GarbageCollected"
	// ReasonFound is a Normal Event about a ConfigMap or Secret: it would have been deleted, but the collector only reports.
	ReasonFound = "GarbageFound"
)

// maxEvents is the maximum number of Events per run; the log has the number of Events that were not sent.
const maxEvents = 100

// Events reports the deletion of ConfigMaps and Secrets, in the target cluster.
type Events struct{ Recorder events.EventRecorder }

// collected sends an Event about a deleted object, unless the run has already sent maxEvents.
func (e *Events) collected(deleted candidate, before int) {
	if before < maxEvents {
		e.Recorder.Eventf(deleted.reference(), nil, corev1.EventTypeNormal, ReasonCollected, "Delete", "%s", "Deleted: "+why(deleted))
	}
}

func (e *Events) found(unused candidate) {
	e.Recorder.Eventf(unused.reference(), nil, corev1.EventTypeNormal, ReasonFound, "Report", "%s",
		"Would be deleted, but garbage collection only reports: "+why(unused))
}

// why returns the note of an Event: why an object is not needed.
func why(unused candidate) string {
	return fmt.Sprintf("created at %s, labelled as garbage-collectable, and no reference annotation on a workload, ManagedResource or "+
		"Prometheus in namespace %q names it",
		unused.created.UTC().Format(time.RFC3339), unused.namespace)
}

// report sends one Event about each unused object: in this run or, if there are too many objects, in a later run.
func (c *Collector) report(ctx context.Context, unused []candidate) {
	reported, described, later := map[types.UID]bool{}, 0, 0
	for _, each := range unused {
		switch {
		case c.reported[each.uid]:
		case described < maxEvents:
			c.Events.found(each)
			described++
		default:
			later++
			continue
		}
		reported[each.uid] = true
	}
	c.reported = reported
	if described > 0 {
		log.FromContext(ctx).Info("Found unreferenced objects, and did not delete them", "objects", len(unused), "new", described,
			"reportedLater", later)
	}
}
