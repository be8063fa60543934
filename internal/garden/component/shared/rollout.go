package shared

import (
	"cmp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/espalier-dev/espalier/api/managedresources"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/health"
)

// Ready returns why the objects of a ManagedResource are not as they were deployed, or nil.
func Ready(set *resourcesv1alpha1.ManagedResource) error {
	return managedresources.CheckAppliedAndHealthy(set)
}

// RolledOut does the same as Ready, and also returns an error as long as old Pods run.
func RolledOut(set *resourcesv1alpha1.ManagedResource) error {
	if err := Ready(set); err != nil {
		return err
	}
	return managedresources.CheckNotProgressing(set)
}

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

// KubernetesVersion returns the version of Kubernetes that a live Deployment has: that of the annotation, or else that of the tag of the
// image of a container. It is nil if neither has one.
func KubernetesVersion(live *appsv1.Deployment, container string) *version.Version {
	text := live.Annotations[operatorv1alpha1.AnnotationKubernetesVersion]
	for i := range live.Spec.Template.Spec.Containers {
		if c := &live.Spec.Template.Spec.Containers[i]; text == "" && c.Name == container {
			text = c.Image[strings.LastIndex(c.Image, ":")+1:]
		}
	}
	parsed, err := version.ParseSemantic(text)
	if err != nil {
		return nil
	}
	return parsed
}
