package controller

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/networkpolicy/desired"
)

// Reasons of the Events about Services. An Event is created again only if its text changes.
const (
	// ReasonInvalidAnnotation is a Warning Event about a Service: an annotation is invalid; the policies stay as they are.
	//
	// Remedy: the text names the annotation, the mistake, and what to write instead.
	ReasonInvalidAnnotation = "InvalidAnnotation"
	// ReasonKeysTooLong is a Warning Event about a Service: keys of client labels were too long and are shortened.
	//
	// Remedy: use the shorter keys that the text names, or shorten names.
	ReasonKeysTooLong = "PodLabelSelectorKeysTooLong"
	// ReasonNamesTooLong is a Warning Event about a Service: names of policies were too long and are shortened.
	//
	// Remedy: nothing needs to be done.
	ReasonNamesTooLong = "PolicyNamesTooLong"
	// ReasonNameTaken is a Warning Event about a Service: either a policy of another owner has a name that the Service needs, and the
	// controller does not change that policy; or two policies of the Service need the same name.
	//
	// Remedy: rename or delete the policy that the text names, or rename an alias, a port or a namespace.
	ReasonNameTaken = "PolicyNameTaken"
	// ReasonNamespaceMissing is a Warning Event about a Service: the configured namespace of the ingress controller does not exist.
	//
	// Remedy: create it, or correct `controllers.networkPolicy.ingressControllerSelector`.
	ReasonNamespaceMissing = "IngressControllerNamespaceMissing"
	// ReasonRepairPaused is a Warning Event about a Service: another client changes or deletes a policy again and again; the controller does
	// not repair it for the time that the text names.
	//
	// Remedy: stop the other client.
	ReasonRepairPaused = "PolicyRepairPaused"
	// ReasonFailed is a Warning Event about a Service: requests that change policies failed. The text names the first failure, and the
	// controller retries. A conflict with a write of another client is not a failure.
	ReasonFailed = "PolicyChangeFailed"
	// ReasonDifference is a Normal Event about a Service: the controller only observes (`observeOnly`), and would have changed policies. The
	// text says how many policies it would create, update and delete, and names the first of them.
	ReasonDifference = "PoliciesDiffer"
)

const (
	// maxNote is the maximum length of an Event's note, in bytes.
	maxNote = 1000
	// maxShown is the maximum length, in bytes, of the original name or key that a note quotes.
	maxShown = 300
)

// Events reports, in the target cluster, mistakes in Services and changes of their policies.
type Events struct {
	Recorder events.EventRecorder
	Reported *Reported
}

// Reported remembers the last Events about Services, so that a fault is reported once, not in each reconciliation. After a restart
// everything is reported again. The zero value is ready for use, and safe for concurrent use.
type Reported struct {
	mu    sync.Mutex
	notes map[string]map[types.NamespacedName][]string // by reason
}

// news returns the notes that are new. If complete is true, it drops previous notes that are not among them; otherwise they stay.
func (t *Reported) news(service types.NamespacedName, reason string, notes []string, complete bool) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.notes == nil {
		t.notes = map[string]map[types.NamespacedName][]string{}
	}
	if t.notes[reason] == nil {
		t.notes[reason] = map[types.NamespacedName][]string{}
	}
	before := t.notes[reason][service]
	fresh := slices.DeleteFunc(slices.Clone(notes), func(note string) bool { return slices.Contains(before, note) })
	after := slices.Concat(before, fresh)
	if complete {
		after = slices.Clone(notes)
	}
	if len(after) == 0 {
		delete(t.notes[reason], service)
	} else {
		t.notes[reason][service] = after
	}
	return fresh
}

// services returns the number of Services with notes for a reason.
func (t *Reported) services(reason string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.notes[reason])
}

// tell creates an Event with the notes about a Service that were not reported before. If complete is true, the argument notes contains all
// current notes, and tell forgets the earlier notes that it does not contain.
func (e *Events) tell(f *facts, kind, reason string, notes []string, complete bool) {
	news := e.Reported.news(f.key, reason, notes, complete)
	if len(news) == 0 {
		return
	}
	e.Recorder.Eventf(f.service, nil, kind, reason, "Reconcile", "%s", excerpt.Of(strings.Join(news, "; "), maxNote))
}

func (e *Events) warn(f *facts, reason string, notes []string, complete bool) {
	e.tell(f, corev1.EventTypeWarning, reason, notes, complete)
}

func (e *Events) faults(f *facts) {
	notes := make([]string, 0, len(f.faults))
	for _, fault := range f.faults {
		notes = append(notes, fmt.Sprintf("Service %s: %s. The policies it is about stay as they are", f.key, fault))
	}
	e.warn(f, ReasonInvalidAnnotation, notes, f.whole)
}

func (e *Events) shortened(f *facts) {
	e.warn(f, ReasonKeysTooLong, shortened("label key", "give it to client Pods, or shorten names", f.set.LongKeys), f.whole)
	e.warn(f, ReasonNamesTooLong, shortened("policy name", "nothing needs to be done", f.set.LongNames), f.whole)
}

func shortened(what, remedy string, list []desired.Shortened) []string {
	notes := make([]string, 0, len(list))
	for _, each := range list {
		long := excerpt.Of(each.Long, maxShown)
		notes = append(notes, fmt.Sprintf("The %s %s is too long, %s is used instead: %s", what, long, each.Short, remedy))
	}
	return notes
}

func (e *Events) missing(f *facts) {
	var notes []string
	if f.missing != "" {
		notes = []string{
			fmt.Sprintf("Namespace %s of the ingress controller does not exist or is being deleted: create it, or correct "+
				"controllers.networkPolicy.ingressControllerSelector; no policy is created in it until then", f.missing),
		}
	}
	e.warn(f, ReasonNamespaceMissing, notes, f.whole)
}

func (e *Events) conflicts(f *facts, conflicts []conflict) {
	notes := make([]string, 0, len(conflicts)+len(f.set.Clashes))
	for _, each := range conflicts {
		notes = append(notes,
			fmt.Sprintf("NetworkPolicy %s exists and belongs to %s; it is left alone: rename or delete it", each.policy, each.by))
	}
	for _, key := range f.set.Clashes {
		notes = append(notes,
			fmt.Sprintf("NetworkPolicy %s is wanted twice for different traffic, the second time is left out: rename an alias, a port or "+
				"a namespace", key))
	}
	slices.Sort(notes)
	e.warn(f, ReasonNameTaken, notes, f.whole)
}

func (e *Events) pausedRepairs(f *facts, paused []pausedRepair) {
	notes := make([]string, 0, len(paused))
	for _, each := range paused {
		notes = append(notes, each.String())
	}
	slices.Sort(notes)
	e.warn(f, ReasonRepairPaused, notes, f.whole)
}

// failures reports the first of the sorted failures, and not their number: both would otherwise change with each attempt.
func (e *Events) failures(f *facts, failures []error) {
	var notes []string
	if len(failures) > 0 {
		notes = []string{fmt.Sprintf("NetworkPolicies could not be changed and are tried again: %v", failures[0])}
	}
	e.warn(f, ReasonFailed, notes, true)
}

// tellDifference reports the writes that the controller omits because it only observes, and the names that it needs and that are taken. If
// the controller writes, tellDifference does nothing.
func (r *Reconciler) tellDifference(f *facts, changes []change) {
	if !r.Own.Observes() {
		return
	}
	var notes []string
	if len(changes) > 0 {
		notes = []string{describeChanges(changes)}
	}
	r.Events.conflicts(f, f.conflicts)
	r.Events.tell(f, corev1.EventTypeNormal, ReasonDifference, notes, true)
	r.Metrics.differ(f.key, count(changes))
}
