package health

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// OldPods describes a rollout of which everything is over but the old pods: as many pods as replicas are wanted.
const OldPods = "there are still non-terminated old pods"

// Rollout is what is needed of a Deployment to recognise old pods: when its rollout is over, the relevant pods of its
// namespace that match Selector are exactly Replicas.
type Rollout struct {
	// Selector are labels that a pod must have; never empty. Whose the pod is does not matter.
	Selector map[string]string
	// Replicas is how many pods are wanted, 1 if the Deployment does not say.
	Replicas int32
}

// RolloutOf returns what is needed to recognise a Deployment's old pods. It is false if they are not to be looked for:
// the Deployment has the annotation resources.gardener.cloud/skip-health-check, "true", or selects by expressions only, so
// that no labels tell which pods to count.
func RolloutOf(d *appsv1.Deployment) (Rollout, bool) {
	if skipped(d) || d.Spec.Selector == nil || len(d.Spec.Selector.MatchLabels) == 0 {
		return Rollout{}, false
	}
	return Rollout{Selector: d.Spec.Selector.MatchLabels, Replicas: ptr.Deref(d.Spec.Replicas, 1)}, true
}

// Relevant tells whether a pod counts for a Deployment. A pod that will never run again does not: it is finished
// (Succeeded, Failed), evicted or otherwise stale, completed, or about to be disrupted. A pod that merely terminates does.
func Relevant(pod *corev1.Pod) bool {
	switch pod.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed:
		return false
	default:
		return !stale(pod.Status.Reason) && !finishing(pod.Status.Conditions)
	}
}

// stale tells whether the reason of a pod's status says that its node gave it up: it was evicted, did not fit (OutOfcpu,
// OutOfmemory, OutOfpods), did not match the node, or its node went away.
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
