package general

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Reasons of the Events about Namespaces. An Event is created again only if its text changes.
const (
	// ReasonNameTaken is a Warning Event about a Namespace: a policy of another owner has the name of a general policy. The controller does
	// not change the policy of the other owner, and does not create `deny-all`.
	//
	// Remedy: rename or delete the policy that the text names.
	ReasonNameTaken = "PolicyNameTaken"
	// ReasonRepairPaused is a Warning Event about a Namespace: another client changes or deletes a general policy again and again; the
	// controller does not repair it for the time that the text names.
	//
	// Remedy: stop the other client.
	ReasonRepairPaused = "PolicyRepairPaused"
	// ReasonDifference is a Normal Event about a Namespace: the controller only observes (`observeOnly`), and would have changed general
	// policies. The text says how.
	ReasonDifference = "PoliciesDiffer"
)

// maxNote is the maximum length of an Event's note, in bytes.
const maxNote = 1000

// Events reports, in the target cluster, faults of the policies of namespaces.
type Events struct {
	Recorder events.EventRecorder

	mu   sync.Mutex
	last map[string]map[string]string // the last note, by namespace and reason
}

func (e *Events) taken(namespace *metav1.PartialObjectMetadata, conflicts []string) {
	e.tell(namespace, corev1.EventTypeWarning, ReasonNameTaken, conflicts)
}

func (e *Events) paused(namespace *metav1.PartialObjectMetadata, paused []string) {
	e.tell(namespace, corev1.EventTypeWarning, ReasonRepairPaused, paused)
}

// differences reports the changes that an observing controller omits.
func (e *Events) differences(namespace *metav1.PartialObjectMetadata, changes []change) {
	notes := make([]string, 0, len(changes))
	for _, each := range changes {
		notes = append(notes, fmt.Sprintf("Would %s NetworkPolicy %s/%s, but the controller only observes",
			each.action, namespace.Name, each.name()))
	}
	e.tell(namespace, corev1.EventTypeNormal, ReasonDifference, notes)
}

// tell creates an Event unless the last one about the namespace for the reason has the same text.
func (e *Events) tell(namespace *metav1.PartialObjectMetadata, kind, reason string, notes []string) {
	slices.Sort(notes)
	note := excerpt.Of(strings.Join(notes, "; "), maxNote)
	if e.isNew(namespace.Name, reason, note) && note != "" {
		e.Recorder.Eventf(namespace, nil, kind, reason, "Reconcile", "%s", note)
	}
}

func (e *Events) isNew(namespace, reason, note string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last == nil {
		e.last = map[string]map[string]string{}
	}
	if e.last[namespace] == nil {
		e.last[namespace] = map[string]string{}
	}
	isNew := e.last[namespace][reason] != note
	e.last[namespace][reason] = note
	return isNew
}

func (e *Events) forget(namespace string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.last, namespace)
}
