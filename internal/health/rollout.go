package health

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// OldPods describes a rollout that is complete except for old Pods: there are more or fewer Pods than replicas.
const OldPods = "there are still non-terminated old pods"

// Rollout contains what is needed to detect old Pods of a Deployment: a rollout is over when the number of relevant Pods in its namespace
// that match Selector is exactly Replicas.
type Rollout struct {
	// Selector contains the labels that a Pod must have; it is never empty. The owner of the Pod does not matter.
	Selector map[string]string
	// Replicas is the desired number of Pods; 1 if the Deployment does not set it.
	Replicas int32
}

// RolloutOf returns what is needed to detect a Deployment's old Pods. It returns false if they must not be counted: the Deployment has the
// annotation resources.gardener.cloud/skip-health-check, "true", or its selector has expressions only, so that no labels select the Pods.
func RolloutOf(d *appsv1.Deployment) (Rollout, bool) {
	if skipped(d) || d.Spec.Selector == nil || len(d.Spec.Selector.MatchLabels) == 0 {
		return Rollout{}, false
	}
	return Rollout{Selector: d.Spec.Selector.MatchLabels, Replicas: ptr.Deref(d.Spec.Replicas, 1)}, true
}

// Relevant reports whether a Pod counts for a Deployment. A Pod that will never run again does not: it is finished (Succeeded, Failed),
// evicted or otherwise stale, completed, or about to be disrupted. A terminating Pod does.
func Relevant(pod *corev1.Pod) bool {
	switch pod.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed:
		return false
	default:
		return !stale(pod.Status.Reason) && !finishing(pod.Status.Conditions)
	}
}

// stale reports whether the reason in a Pod's status says that its node rejected or lost it: it was evicted, did not fit (OutOfcpu,
// OutOfmemory, OutOfpods), did not match the node, or the node is gone.
func stale(reason string) bool {
	switch reason {
	case "Evicted", "NodeAffinity", "NodeLost":
		return true
	}
	return strings.HasPrefix(reason, "OutOf")
}

func finishing(conditions []corev1.PodCondition) bool {
	for i := range conditions {
		switch c := &conditions[i]; c.Type {
		case corev1.PodReady:
			if c.Status == corev1.ConditionFalse && c.Reason == "PodCompleted" {
				return true
			}
		case corev1.DisruptionTarget:
			if c.Status == corev1.ConditionTrue {
				return true
			}
		default:
		}
	}
	return false
}
