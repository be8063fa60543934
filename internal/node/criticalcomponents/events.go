package criticalcomponents

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
)

// EventComponent is the component that reports the Events; Gardener's resource manager reports them under the same name.
const EventComponent = "gardener-node-controller"

// Reasons of the Events.
const (
	// ReasonReady is a Normal Event about a Node: its taint was removed.
	ReasonReady = "NodeCriticalComponentsReady"
	// ReasonMissing is a Warning Event about a Node: DaemonSets that the configuration requires do not exist, or lack a label.
	ReasonMissing = "MissingNodeCriticalDaemonSets"
	// ReasonUnscheduled is a Warning Event about a Node: DaemonSets that should run on it have no Pod with the label there yet.
	//
	// Remedy: if this lasts, `kubectl describe daemonset` shows why. Check that the *existing* Pods have the label too.
	ReasonUnscheduled = "UnscheduledNodeCriticalDaemonSets"
	// ReasonUnready is a Warning Event about a Node: critical Pods on it are not ready.
	//
	// Remedy: remove the label from Pods that have ended, such as those of Jobs: they never become ready again.
	ReasonUnready = "UnreadyNodeCriticalPods"
	// ReasonUnregistered is a Warning Event about a Node: CSI drivers that Pods wait for are not registered.
	ReasonUnregistered = "UnreadyRequiredCSIDrivers"
	// ReasonFailed is a Warning Event about a Node: its taint stays because of two errors in a row. The controller retries after 0.1 s, then
	// after pauses that grow to a minute.
	//
	// Remedy: the text says what failed, and what to do if rights are missing.
	ReasonFailed = "CriticalComponentsCheckFailed"
	// ReasonInvalidDriver is a Warning Event about a Pod: the value of its annotation cannot be the name of a CSI driver, so the Node that
	// the Event names would wait for ever.
	//
	// Remedy: write the name as `kubectl get csinode -o yaml` shows it, one annotation per driver.
	ReasonInvalidDriver = "InvalidWaitForCSINodeAnnotation"
	// ReasonInvalidAffinity is a Warning Event about a DaemonSet: a part of its node affinity cannot be parsed, and matches no Node, for
	// example `Gt` with a value that is not a number, which the API server accepts. Kubernetes creates no Pods for such a DaemonSet, so the
	// controller does not wait for one.
	//
	// Remedy: correct the affinity.
	ReasonInvalidAffinity = "InvalidNodeAffinity"
)

// Events sends Events about removed taints, and about the reasons for which Nodes wait, to the target cluster.
type Events struct{ Recorder events.EventRecorder }

func (e *Events) ready(node *corev1.Node) {
	e.Recorder.Eventf(referTo(node), nil, corev1.EventTypeNormal, ReasonReady, "RemoveTaint",
		"All node-critical components got ready, removing taint")
}

func (e *Events) heldBack(node *corev1.Node, by finding) {
	reason := map[cause]string{
		missing: ReasonMissing, unscheduled: ReasonUnscheduled, unready: ReasonUnready, unregistered: ReasonUnregistered,
	}[by.cause]
	e.Recorder.Eventf(referTo(node), by.related(node), corev1.EventTypeWarning, reason, "KeepTaint", "%s", by.note())
}

func (e *Events) failed(node *corev1.Node, err error) {
	e.Recorder.Eventf(referTo(node), nil, corev1.EventTypeWarning, ReasonFailed, "KeepTaint", "%s", failureNote(err))
}

func (e *Events) invalidDriver(pod *corev1.Pod, node string, bad badAnnotation) {
	related := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, FieldPath: bad.key}
	e.Recorder.Eventf(referToPod(pod), related, corev1.EventTypeWarning, ReasonInvalidDriver, "KeepTaint", "%s", bad.note(node))
}

func (e *Events) invalidAffinity(daemonSet *appsv1.DaemonSet, fault error) {
	regarding := &corev1.ObjectReference{
		APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: daemonSet.Namespace, Name: daemonSet.Name, UID: daemonSet.UID,
		ResourceVersion: daemonSet.ResourceVersion,
	}
	e.Recorder.Eventf(regarding, nil, corev1.EventTypeWarning, ReasonInvalidAffinity, "IgnoreTerm", "%s", affinityNote(fault))
}

// referTo returns a reference to a Node for Events. It has no resource version, so that repeated Events are counted as one.
func referTo(node *corev1.Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
}

func referToPod(pod *corev1.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// invalid sends Events about mistakes in Pods and DaemonSets, once for each object and mistake.
func (e *Events) invalid(f facts, toldBefore func(types.UID, string) bool) {
	for i := range f.pods {
		pod := &f.pods[i]
		for _, bad := range badAnnotations(pod) {
			if !toldBefore(pod.UID, fmt.Sprintf("%s=%s", bad.key, bad.value)) {
				e.invalidDriver(pod, f.node.Name, bad)
			}
		}
	}
	for i := range f.daemonSets {
		daemonSet := &f.daemonSets[i]
		if fault := affinityFault(daemonSet); fault != nil && !toldBefore(daemonSet.UID, fault.Error()) {
			e.invalidAffinity(daemonSet, fault)
		}
	}
}
