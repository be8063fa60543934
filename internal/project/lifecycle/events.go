package lifecycle

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

// EventSource is the component that reports the Events.
const EventSource = "project-controller"

// Reasons of the Events, which are all about Projects.
const (
	// reasonReconcileFailed is a Warning Event about a Project: its namespace, or an object in it, could not be set up. The controller retries
	// with growing pauses.
	reasonReconcileFailed = "NamespaceReconcileFailed"
	// reasonReconciled is a Normal Event about a Project: its namespace and the objects in it are set up.
	reasonReconciled = "NamespaceReconcileSuccessful"
	// reasonNotEmpty is a Warning Event about a Project: its namespace is not deleted, because it contains Shoots.
	//
	// Remedy: delete the Shoots.
	reasonNotEmpty = "NamespaceNotEmpty"
	// reasonDeletionFailed is a Warning Event about a Project: the API server refused to delete or release its namespace, as the message says.
	reasonDeletionFailed = "NamespaceDeletionFailed"
	// reasonMarkedForDeletion is a Normal Event about a Project: the deletion of its namespace has begun.
	reasonMarkedForDeletion = "NamespaceMarkedForDeletion"
	// reasonMembershipExpiryBad is a Warning Event about a Project: the annotation with the ends of memberships has a mistake.
	//
	// Remedy: correct the annotation.
	reasonMembershipExpiryBad = "MembershipExpiryInvalid"
	// reasonRepairsDelayed is a Warning Event about a Project: another client keeps changing a role or binding that the controller restores.
	// The controller pauses the repairs of the object for 10 s to 5 min at a time.
	//
	// Remedy: find the client in the `managedFields` of the object, and stop it.
	reasonRepairsDelayed = "RoleRepairsDelayed"
)

// maxMessage is the maximum length of an Event's message in bytes: clients of events.k8s.io expect no more.
const maxMessage = 1024

// Events creates core/v1 Events about Projects. A Project has no namespace, so its Events are in the namespace default.
type Events struct{ Recorder record.EventRecorder }

func (e *Events) send(p *corev1beta1.Project, kind, reason, message string) {
	e.Recorder.Event(p, kind, reason, excerpt.Of(message, maxMessage))
}

// reconciled is sent once for each generation of a Project, and whenever its namespace was created or changed. A reconciliation that
// changes nothing creates no Event.
func (e *Events) reconciled(p *corev1beta1.Project, namespace string) {
	e.send(p, corev1.EventTypeNormal, reasonReconciled, fmt.Sprintf("Successfully reconciled namespace %q for project", namespace))
}

func (e *Events) failed(p *corev1beta1.Project, fault *failure) {
	e.send(p, corev1.EventTypeWarning, fault.reason, fault.message)
}

func (e *Events) notEmpty(p *corev1beta1.Project, namespace string) {
	e.send(p, corev1.EventTypeWarning, reasonNotEmpty, fmt.Sprintf("Cannot release namespace %q because it still contains Shoots", namespace))
}

// marked is sent when the deletion of the namespace begins, not each time that the namespace still exists.
func (e *Events) marked(p *corev1beta1.Project, namespace string) {
	e.send(p, corev1.EventTypeNormal, reasonMarkedForDeletion, fmt.Sprintf("Successfully marked project namespace %q for deletion", namespace))
}

// repairsDelayed is sent when a pause begins.
func (e *Events) repairsDelayed(p *corev1beta1.Project, about string, pause time.Duration) {
	e.send(p, corev1.EventTypeWarning, reasonRepairsDelayed,
		fmt.Sprintf("Another client keeps changing what the controller restores (%s); repairs pause for %s", about, pause))
}

func (e *Events) expiryProblems(p *corev1beta1.Project, problems []string) {
	for _, each := range problems {
		e.send(p, corev1.EventTypeWarning, reasonMembershipExpiryBad, each)
	}
}
