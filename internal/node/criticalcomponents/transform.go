package criticalcomponents

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/process"
)

// trim reduces an object to the fields that the checks need, before it is cached. Objects of other kinds, and other values, stay as they
// are.
func trim(object any) (any, error) {
	switch o := object.(type) {
	case *corev1.Node:
		return trimmedNode(o), nil
	case *corev1.Pod:
		return trimmedPod(o), nil
	case *appsv1.DaemonSet:
		return trimmedDaemonSet(o), nil
	case *storagev1.CSINode:
		return trimmedCSINode(o), nil
	}
	return object, nil
}

func trimmedNode(o *corev1.Node) *corev1.Node {
	node := &corev1.Node{TypeMeta: o.TypeMeta, ObjectMeta: process.Identity(o)}
	node.CreationTimestamp, node.Labels = o.CreationTimestamp, o.Labels
	node.Spec.Taints = o.Spec.Taints
	return node
}

func trimmedPod(o *corev1.Pod) *corev1.Pod {
	pod := &corev1.Pod{TypeMeta: o.TypeMeta, ObjectMeta: process.Identity(o)}
	pod.Labels = criticalLabel(o.Labels)
	for key, value := range o.Annotations {
		if strings.HasPrefix(key, resourcesv1alpha1.WaitForCSINodePrefix) {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
		}
	}
	if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
		pod.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	pod.Spec.NodeName = o.Spec.NodeName
	for _, condition := range o.Status.Conditions {
		if condition.Type == corev1.PodReady {
			pod.Status.Conditions = []corev1.PodCondition{{Type: condition.Type, Status: condition.Status}}
		}
	}
	return pod
}

func trimmedDaemonSet(o *appsv1.DaemonSet) *appsv1.DaemonSet {
	daemonSet := &appsv1.DaemonSet{TypeMeta: o.TypeMeta, ObjectMeta: process.Identity(o)}
	daemonSet.Labels = criticalLabel(o.Labels)
	from, to := &o.Spec.Template, &daemonSet.Spec.Template
	to.Labels = criticalLabel(from.Labels)
	to.Spec.NodeName, to.Spec.HostNetwork = from.Spec.NodeName, from.Spec.HostNetwork
	to.Spec.NodeSelector, to.Spec.Tolerations = from.Spec.NodeSelector, from.Spec.Tolerations
	if affinity := from.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		to.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		}}
	}
	return daemonSet
}

func trimmedCSINode(o *storagev1.CSINode) *storagev1.CSINode {
	csiNode := &storagev1.CSINode{TypeMeta: o.TypeMeta, ObjectMeta: process.Identity(o)}
	for i := range o.Spec.Drivers {
		csiNode.Spec.Drivers = append(csiNode.Spec.Drivers, storagev1.CSINodeDriver{Name: o.Spec.Drivers[i].Name})
	}
	return csiNode
}

func criticalLabel(labels map[string]string) map[string]string {
	value, found := labels[resourcesv1alpha1.CriticalComponent]
	if !found {
		return nil
	}
	return map[string]string{resourcesv1alpha1.CriticalComponent: value}
}
