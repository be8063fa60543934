package vpa

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/rights"
)

const (
	rolePrefix = "gardener.cloud:vpa:source:"
	core       = ""
	group      = "autoscaling.k8s.io"
)

var read = rights.Read()

// roles returns the roles of all programs and their bindings.
func roles(owner object.Owner) []client.Object {
	shares := []struct {
		suffix   string
		accounts []string
		rules    []rbacv1.PolicyRule
	}{
		{"admission-controller", []string{admission}, admissionRules()},
		{"metrics-reader", []string{recommender}, []rbacv1.PolicyRule{
			rights.Rule("metrics.k8s.io", "pods", "get", "list"),
		}},
		{"checkpoint-actor", []string{recommender}, []rbacv1.PolicyRule{
			rights.Rule(group, "verticalpodautoscalercheckpoints", "get", "list", "watch", "create", "patch", "delete"),
			rights.Rule(core, "namespaces", "get", "list"),
		}},
		{"status-actor", []string{recommender}, []rbacv1.PolicyRule{
			rights.Rule(group, "verticalpodautoscalers/status", "get", "patch"),
		}},
		{"evictioner", []string{updater}, []rbacv1.PolicyRule{
			rights.Rule("apps;extensions", "replicasets", "get"),
			rights.Rule(core, "pods/eviction", "create"),
		}},
		{"vpa-updater-in-place", []string{updater}, []rbacv1.PolicyRule{
			rights.Rule(core, "pods;pods/resize", "patch"),
		}},
		{"actor", []string{recommender, updater}, actorRules()},
		{"target-reader", []string{admission, recommender, updater}, targetRules()},
	}
	leases := []string{recommender, updater}
	objects := make([]client.Object, 0, 2*len(shares)+2*len(leases))
	for _, each := range shares {
		role := owner.ClusterRole(rolePrefix+each.suffix, each.rules...)
		name := role.Name
		if each.suffix == "vpa-updater-in-place" {
			name += "-binding"
		}
		binding := owner.ClusterRoleBinding(name, role.Name, each.accounts...)
		binding.Annotations = map[string]string{resourcesv1alpha1.DeleteOnInvalidUpdate: "true"}
		objects = append(objects, role, binding)
	}
	for _, each := range leases {
		objects = append(objects, lease(owner, each)...)
	}
	return objects
}

// lease returns a Role for the lease of a program, and its binding.
func lease(owner object.Owner, name string) []client.Object {
	leases := rights.Rule(rights.LeasesGroup, "leases")
	create, use := leases, rights.Named(leases, name)
	create.Verbs, use.Verbs = []string{"create"}, []string{"get", "watch", "update"}
	role := owner.RoleIn(rolePrefix+"leader-locking-"+name, create, use)
	binding := owner.RoleBinding(role.Name, role.Name, name)
	binding.Annotations = map[string]string{resourcesv1alpha1.DeleteOnInvalidUpdate: "true"}
	return []client.Object{role, binding}
}

// admissionRules do not allow writing webhook configurations: the operator deploys the webhook configuration of the admission controller,
// which does not register itself.
func admissionRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule(core, "pods;configmaps;nodes;limitranges", read...),
		rights.Rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "get", "list"),
		rights.Rule(group, "verticalpodautoscalers", read...),
		rights.Rule(rights.LeasesGroup, "leases", "create", "update", "get", "list", "watch"),
	}
}

func actorRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule(core, "pods;nodes;limitranges", read...),
		rights.Rule(";events.k8s.io", "events", "create", "get", "list", "watch", "patch", "update"),
		rights.Rule(group, "verticalpodautoscalers", read...),
		rights.Rule(rights.LeasesGroup, "leases", read...),
	}
}

func targetRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule("*", "*/scale", "get", "watch"),
		rights.Rule(core, "replicationcontrollers", read...),
		rights.Rule("apps", "daemonsets;deployments;replicasets;statefulsets", read...),
		rights.Rule("batch", "jobs;cronjobs", read...),
		rights.Rule("druid.gardener.cloud", "etcds;etcds/scale", read...),
	}
}
