package health

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// OldPods describes a rollout that is complete except for old Pods: the number of Pods differs from the number of replicas.
const OldPods = "there are still non-terminated old pods"

// Rollout contains the data with which old Pods of a Deployment are detected: the rollout is over when exactly Replicas relevant Pods in
// its namespace match Selector.
type Rollout struct {
	// Selector contains the labels that a Pod must have; it is never empty. The owner of the Pod is not checked.
	Selector map[string]string
	// Replicas is the desired number of Pods; 1 if the Deployment does not set it.
	Replicas int32
}

// RolloutOf returns the data with which old Pods of a Deployment are detected. It returns false if Pods must not be counted: the
// Deployment has the annotation resources.gardener.cloud/skip-health-check, "true", or its selector has no matchLabels, for example
// because it contains only expressions.
func RolloutOf(d *appsv1.Deployment) (Rollout, bool) {
	if skipped(d) || d.Spec.Selector == nil || len(d.Spec.Selector.MatchLabels) == 0 {
		return Rollout{}, false
	}
	return Rollout{Selector: d.Spec.Selector.MatchLabels, Replicas: ptr.Deref(d.Spec.Replicas, 1)}, true
}

// Relevant reports whether a Pod counts for a Deployment. A Pod that will never run again does not count: its phase is Succeeded or
// Failed, it is stale (for example, evicted), its condition Ready has the reason PodCompleted, or it is about to be disrupted. A
// terminating Pod counts.
func Relevant(pod *corev1.Pod) bool {
	status := pod.Status
	return status.Phase != corev1.PodSucceeded && status.Phase != corev1.PodFailed && !stale(status.Reason) &&
		!slices.ContainsFunc(status.Conditions, isFinal)
}

// stale reports whether the reason in a Pod's status says that the node rejected or lost the Pod: the Pod was evicted, did not fit
// (OutOfcpu, OutOfmemory, OutOfpods), did not match the node, or the node is gone.
func stale(reason string) bool {
	return slices.Contains([]string{"Evicted", "NodeAffinity", "NodeLost"}, reason) || strings.HasPrefix(reason, "OutOf")
}

// isFinal reports whether a condition says that a Pod is completed or about to be disrupted.
func isFinal(c corev1.PodCondition) bool {
	completed := c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && c.Reason == "PodCompleted"
	return completed || c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
}
