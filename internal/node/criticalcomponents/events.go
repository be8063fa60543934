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
	// ReasonReady, on a Node: its taint was removed.
	ReasonReady = "NodeCriticalComponentsReady"
	// ReasonMissing, on a Node: DaemonSets that the configuration requires do not exist.
	ReasonMissing = "MissingNodeCriticalDaemonSets"
	// ReasonUnscheduled, on a Node: DaemonSets have no Pod on it yet.
	ReasonUnscheduled = "UnscheduledNodeCriticalDaemonSets"
	// ReasonUnready, on a Node: critical Pods on it are not ready.
	ReasonUnready = "UnreadyNodeCriticalPods"
	// ReasonUnregistered, on a Node: CSI drivers that Pods wait for are not registered.
	ReasonUnregistered = "UnreadyRequiredCSIDrivers"
	// ReasonFailed, on a Node: its taint stays because of two errors in a row.
	ReasonFailed = "CriticalComponentsCheckFailed"
	// ReasonInvalidDriver, on a Pod: it waits for a CSI driver that cannot exist.
	ReasonInvalidDriver = "InvalidWaitForCSINodeAnnotation"
	// ReasonInvalidAffinity, on a DaemonSet: a part of its node affinity cannot be parsed, and matches no Node.
	ReasonInvalidAffinity = "InvalidNodeAffinity"
)

// Events reports, in the target cluster, removed taints and the reasons for waiting Nodes.
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

// invalid reports mistakes in Pods and DaemonSets, once for each object and mistake.
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
