// Package shared contains builders of objects, and labels and annotations of workloads, of several components. Labels and annotations for
// connections are in package network, the rules for when objects are ready in package judgement, and everything of a single component in
// the package of the component.
package shared

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Role is the label with the purpose of an object.
const Role = "gardener.cloud/role"

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

// API groups of Gardener, and of Kubernetes.
const (
	CoreGroup           = "core.gardener.cloud"
	OperationsGroup     = "operations.gardener.cloud"
	SeedManagementGroup = "seedmanagement.gardener.cloud"
	SecurityGroup       = "security.gardener.cloud"
	LeasesGroup         = "coordination.k8s.io"
	CertificatesGroup   = "certificates.k8s.io"
)

// Union returns a new map with the entries of all maps. Later maps win.
func Union(all ...map[string]string) map[string]string {
	union := map[string]string{}
	for _, each := range all {
		maps.Copy(union, each)
	}
	return union
}

// Services returns the DNS names of a Service.
func Services(namespace string, names ...string) []string {
	all := make([]string, 0, 4*len(names))
	for _, each := range names {
		inNamespace := each + "." + namespace
		all = append(all, each, inNamespace, inNamespace+".svc", inNamespace+".svc.cluster.local")
	}
	return all
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

// Rule returns a rule of a role. As in RBAC markers, several API groups and resources are separated by semicolons.
func Rule(groups, resources string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: strings.Split(groups, ";"), Resources: strings.Split(resources, ";"), Verbs: verbs}
}

// Read returns the verbs that read, followed by the given verbs.
func Read(further ...string) []string { return append([]string{"get", "list", "watch"}, further...) }

// Named returns a rule for single objects.
func Named(rule rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
	rule.ResourceNames = names
	return rule
}

// ClusterRole returns a ClusterRole.
func (o Owner) ClusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	meta := o.Meta(name)
	meta.Namespace = ""
	return &rbacv1.ClusterRole{TypeMeta: Type(rbacv1.SchemeGroupVersion.String(), "ClusterRole"), ObjectMeta: meta, Rules: rules}
}

// ClusterRoleBinding binds a ClusterRole to ServiceAccounts of the namespace.
func (o Owner) ClusterRoleBinding(name, role string, accounts ...string) *rbacv1.ClusterRoleBinding {
	meta := o.Meta(name)
	meta.Namespace = ""
	return &rbacv1.ClusterRoleBinding{
		TypeMeta: Type(rbacv1.SchemeGroupVersion.String(), "ClusterRoleBinding"), ObjectMeta: meta,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: o.subjects(accounts),
	}
}

// RoleIn returns a Role.
func (o Owner) RoleIn(name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{TypeMeta: Type(rbacv1.SchemeGroupVersion.String(), "Role"), ObjectMeta: o.Meta(name), Rules: rules}
}

// RoleBinding binds a Role to ServiceAccounts of the namespace.
func (o Owner) RoleBinding(name, role string, accounts ...string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta: Type(rbacv1.SchemeGroupVersion.String(), "RoleBinding"), ObjectMeta: o.Meta(name),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role}, Subjects: o.subjects(accounts),
	}
}

func (o Owner) subjects(accounts []string) []rbacv1.Subject {
	subjects := make([]rbacv1.Subject, 0, len(accounts))
	for _, each := range accounts {
		subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: o.Namespace, Name: each})
	}
	return subjects
}

// Service returns a Service for the Pods with the labels of the Owner.
func (o Owner) Service(name string, annotations map[string]string, ports ...corev1.ServicePort) *corev1.Service {
	meta := o.Meta(name)
	meta.Annotations = annotations
	return &corev1.Service{TypeMeta: Type("v1", "Service"), ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Selector: maps.Clone(o.Labels), Ports: ports,
	}}
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
