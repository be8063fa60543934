// Package object builds objects of components. Parts of Pods are in package pods, rules of roles in package rights, labels and annotations
// for connections in package network, the rules for when objects are ready in package judgement, and everything of a single component in
// the package of the component.
package object

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Role is the label with the purpose of an object.
const Role = "gardener.cloud/role"

// Union returns a new map with the entries of all maps. Later maps win.
func Union(all ...map[string]string) map[string]string {
	union := map[string]string{}
	for _, each := range all {
		maps.Copy(union, each)
	}
	return union
}

// Type returns the type of an object.
func Type(apiVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
}

// Owner is the namespace and the labels of the objects of a component. The namespace is empty for cluster-scoped objects.
type Owner struct {
	Namespace string
	Labels    map[string]string
}

// Meta returns metadata with the labels.
func (o Owner) Meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: o.Namespace, Name: name, Labels: maps.Clone(o.Labels)}
}

// WithLabels returns an Owner with further labels.
func (o Owner) WithLabels(labels ...map[string]string) Owner {
	return Owner{Namespace: o.Namespace, Labels: Union(append([]map[string]string{o.Labels}, labels...)...)}
}

// ServiceAccount returns a ServiceAccount whose token is not mounted. A webhook of the resource manager mounts a short-lived one.
func (o Owner) ServiceAccount(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta: Type("v1", "ServiceAccount"), ObjectMeta: o.Meta(name), AutomountServiceAccountToken: ptr.To(false),
	}
}

// DisruptionBudget returns a PodDisruptionBudget for the Pods with the labels of the Owner. It allows the eviction of one Pod at a time,
// and of every Pod that is not ready.
func (o Owner) DisruptionBudget(name string) *policyv1.PodDisruptionBudget {
	return o.budget(name, policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: ptr.To(intstr.FromInt32(1)), UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
	})
}

// AvailabilityBudget keeps one of the Pods with the labels of the Owner available.
func (o Owner) AvailabilityBudget(name string) *policyv1.PodDisruptionBudget {
	return o.budget(name, policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1))})
}

func (o Owner) budget(name string, budget policyv1.PodDisruptionBudgetSpec) *policyv1.PodDisruptionBudget {
	budget.Selector = &metav1.LabelSelector{MatchLabels: maps.Clone(o.Labels)}
	return &policyv1.PodDisruptionBudget{
		TypeMeta: Type(policyv1.SchemeGroupVersion.String(), "PodDisruptionBudget"), ObjectMeta: o.Meta(name), Spec: budget,
	}
}
