// Package virtualsystem returns the system resources of the virtual cluster: namespaces, and the roles of administrators, viewers, members
// of projects and bootstrapping seeds. A ManagedResource deploys them into the virtual cluster.
//
// Seeds have no role here: the authorization webhook of gardener-admission-controller decides about their requests.
package virtualsystem

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/rights"
)

// ManagedResource is the name of the ManagedResource with these objects.
const ManagedResource = "garden-system-virtual"

// Namespaces of the virtual cluster.
const (
	// Namespace is the namespace of the garden's own project. It stays when the ManagedResource is deleted.
	Namespace = "garden"
	// PublicNamespace is the namespace of objects that all users may read.
	PublicNamespace = "gardener-system-public"
	// ProbeNamespace is the namespace of the ServiceAccount ProbeAccount, which has no rights. With tokens of this ServiceAccount, a rotation
	// checks which keys the API servers accept.
	ProbeNamespace = metav1.NamespaceSystem
	ProbeAccount   = "rotation-probe"
)

// authenticated is the group of all users that are not anonymous.
const authenticated = "system:authenticated"

// Objects returns the objects of the ManagedResource.
func Objects() []client.Object {
	garden := namespace(Namespace)
	garden.Labels = map[string]string{"app": "gardener"}
	garden.Annotations = map[string]string{resourcesv1alpha1.KeepObject: "true"}
	objects := []client.Object{
		garden, namespace(PublicNamespace), object.Owner{Namespace: ProbeNamespace}.ServiceAccount(ProbeAccount),
	}
	for _, each := range roles() {
		objects = append(objects, each.objects()...)
	}
	return slices.Concat(objects,
		readableByAll(metav1.NamespaceSystem, "gardener.cloud:system:read-cluster-identity-configmap", "cluster-identity"),
		readableByAll(PublicNamespace, "gardener.cloud:system:read-gardener-system-public", "gardener-info", "kube-root-ca.crt"),
	)
}

// namespace returns the metadata alone, because the API server sets the specification.
func namespace(name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: object.Type("v1", "Namespace"), ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// readableByAll lets all users that are not anonymous read ConfigMaps. Name is the name of the Role and of its binding.
func readableByAll(namespace, name string, configMaps ...string) []client.Object {
	owner := object.Owner{Namespace: namespace}
	binding := owner.RoleBinding(name, name)
	binding.Subjects = subject(rbacv1.GroupKind, authenticated)
	return []client.Object{owner.RoleIn(name, rights.Named(rights.Rule("", "configmaps", rights.Read()...), configMaps...)), binding}
}

func subject(kind, name string) []rbacv1.Subject {
	return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}}
}

// role is a ClusterRole. Its binding has the same name.
type role struct {
	name   string
	labels map[string]string
	rules  []rbacv1.PolicyRule
	// aggregates select the ClusterRoles whose rules the role gets, instead of rules of its own.
	aggregates []metav1.LabelSelector
	// bound are the users and groups to which the role is bound. Without them there is no binding.
	bound []rbacv1.Subject
}

func (r role) objects() []client.Object {
	owner := object.Owner{Labels: r.labels}
	own := owner.ClusterRole(r.name, r.rules...)
	if len(r.aggregates) > 0 {
		own.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: r.aggregates}
	}
	if len(r.bound) == 0 {
		return []client.Object{own}
	}
	binding := object.Owner{}.ClusterRoleBinding(r.name, r.name)
	binding.Subjects = r.bound
	return []client.Object{own, binding}
}

// Values of the label gardener.cloud/role of ClusterRoles.
const (
	administrator                = "admin"
	viewer                       = "viewer"
	projectMember                = "project-member"
	projectServiceAccountManager = "project-serviceaccountmanager"
	projectViewer                = "project-viewer"
)

// aggregationPrefix is the prefix of a label of ClusterRoles. The rest of the label is the name of the role that gets the rules of these
// ClusterRoles, and the value is true. Extensions set the label too.
const aggregationPrefix = "rbac.gardener.cloud/aggregate-to-"

func labelled(role string) map[string]string { return map[string]string{object.Role: role} }

func aggregatedTo(role string) map[string]string {
	return map[string]string{aggregationPrefix + role: "true"}
}

func withLabels(all ...map[string]string) []metav1.LabelSelector {
	selectors := make([]metav1.LabelSelector, 0, len(all))
	for _, each := range all {
		selectors = append(selectors, metav1.LabelSelector{MatchLabels: each})
	}
	return selectors
}

func roles() []role {
	const prefix = "gardener.cloud:system:"
	aggregated := func(name string) role {
		return role{name: prefix + name, labels: labelled(name), aggregates: withLabels(aggregatedTo(name))}
	}
	aggregation := func(name string, rules []rbacv1.PolicyRule) role {
		return role{name: prefix + name + "-aggregation", labels: aggregatedTo(name), rules: rules}
	}
	return []role{
		{name: prefix + "seed-bootstrapper", rules: bootstrapperRules(), bound: subject(rbacv1.GroupKind, "system:bootstrappers")},
		{
			name: "gardener.cloud:admin", labels: labelled(administrator), rules: administratorRules(),
			bound: subject(rbacv1.UserKind, "system:kube-aggregator"),
		},
		{
			name: prefix + "administrators", labels: labelled("administrators"),
			aggregates: withLabels(labelled(administrator), labelled(projectMember), labelled(projectServiceAccountManager)),
		},
		{name: "gardener.cloud:viewer", labels: labelled(viewer), rules: viewerRules()},
		{name: prefix + "viewers", labels: labelled("viewers"), aggregates: withLabels(labelled(viewer), labelled(projectViewer))},
		{name: prefix + "read-global-resources", rules: globalRules(), bound: subject(rbacv1.GroupKind, authenticated)},
		{name: prefix + "user-auth", rules: reviewRules(), bound: subject(rbacv1.GroupKind, authenticated)},
		{name: prefix + "project-creation", rules: []rbacv1.PolicyRule{
			rights.Rule(rights.CoreGroup, "projects", "create"),
		}},
		aggregation(projectMember, projectMemberRules()),
		aggregated(projectMember),
		aggregation(projectServiceAccountManager, []rbacv1.PolicyRule{
			rights.Rule("", "serviceaccounts", full()...),
			rights.Rule("", "serviceaccounts/token", "create"),
		}),
		aggregated(projectServiceAccountManager),
		aggregation(projectViewer, projectViewerRules()),
		aggregated(projectViewer),
	}
}
