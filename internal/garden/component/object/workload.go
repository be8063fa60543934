package object

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/api/references"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
)

// Labels and annotations of workloads, and values of labels.
const (
	// AvailabilityType makes a webhook set the replicas of a Deployment or StatefulSet, and spread its Pods.
	AvailabilityType = "high-availability-config.resources.gardener.cloud/type"
	// AvailabilityReplicas is an annotation with the number of replicas that the webhook sets. Without it, there are two.
	AvailabilityReplicas = "high-availability-config.resources.gardener.cloud/replicas"
	// Controller and Server are values of AvailabilityType.
	Controller = "controller"
	Server     = "server"
)

// Deployment returns a Deployment that keeps two old ReplicaSets. It selects Pods by the labels of selector; its Pods also have further
// labels. Containers pull their image only if the node does not have it. A Pod or container without a security context gets
// pods.PodSecurityContext or pods.ContainerSecurityContext.
func (o Owner) Deployment(name string, replicas int32, selector, further map[string]string, pod corev1.PodSpec) *appsv1.Deployment {
	pod.Containers = slices.Clone(pod.Containers) // so that the caller's containers do not change
	for i := range pod.Containers {
		c := &pod.Containers[i]
		c.ImagePullPolicy = corev1.PullIfNotPresent
		if c.SecurityContext == nil {
			c.SecurityContext = pods.ContainerSecurityContext()
		}
	}
	if pod.SecurityContext == nil {
		pod.SecurityContext = pods.PodSecurityContext()
	}
	return &appsv1.Deployment{
		TypeMeta: Type(appsv1.SchemeGroupVersion.String(), "Deployment"), ObjectMeta: o.Meta(name),
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, RevisionHistoryLimit: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: maps.Clone(selector)},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: Union(selector, further)}, Spec: pod},
		},
	}
}

// AnnotateReferences annotates a Deployment with the ConfigMaps and Secrets that it uses, so that the garbage collector keeps them.
func AnnotateReferences(d *appsv1.Deployment) {
	_ = references.InjectAnnotations(d) // which only fails for types that it does not know
}
