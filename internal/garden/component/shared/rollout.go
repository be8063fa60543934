package shared

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/health"
)

// RolloutProblem returns why the rollout of a Deployment is not complete, or "". Pods are those that its selector matches; one that is
// terminating counts, because it may still serve.
func RolloutProblem(d *appsv1.Deployment, pods []corev1.Pod) string {
	verdict := health.Judge(d)
	if problem := cmp.Or(verdict.Failed, verdict.Unhealthy, verdict.Progressing); problem != "" {
		return problem
	}
	var relevant int32
	for i := range pods {
		if health.Relevant(&pods[i]) {
			relevant++
		}
	}
	if rollout, counts := health.RolloutOf(d); counts && rollout.Replicas != relevant {
		return health.OldPods
	}
	return ""
}

// NewestPod returns the Pod that was created last, nil if there is none. Its logs say why a rollout does not complete.
func NewestPod(pods []corev1.Pod) *corev1.Pod {
	var newest *corev1.Pod
	for i := range pods {
		if newest == nil || newest.CreationTimestamp.Before(&pods[i].CreationTimestamp) {
			newest = &pods[i]
		}
	}
	return newest
}
