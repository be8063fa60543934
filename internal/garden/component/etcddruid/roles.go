package etcddruid

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/espalier-dev/espalier/internal/garden/component/shared"
)

const roleName = "gardener.cloud:system:etcd-druid"

func rules() []rbacv1.PolicyRule {
	full := shared.Read("create", "update", "patch", "delete")
	const core, druid = "", "druid.gardener.cloud"
	return []rbacv1.PolicyRule{
		shared.Rule(core, "pods", "get", "list", "watch", "delete", "deletecollection"),
		shared.Rule(core, "secrets;endpoints", "get", "list", "patch", "update", "watch"),
		shared.Rule(core, "events", "create", "get", "list", "watch", "patch", "update"),
		shared.Rule(core, "serviceaccounts;services;configmaps", full...),
		shared.Rule(core, "persistentvolumeclaims", "get", "list", "watch"),
		shared.Rule("rbac.authorization.k8s.io", "roles;rolebindings", full...),
		shared.Rule("apps;batch", "statefulsets;jobs", full...),
		shared.Rule(druid, "etcds;etcdcopybackupstasks;etcdopstasks", full...),
		shared.Rule(druid, "etcds/status;etcds/finalizers;etcdcopybackupstasks/status;etcdcopybackupstasks/finalizers;"+
			"etcdopstasks/status;etcdopstasks/finalizers", "get", "update", "patch", "create"),
		shared.Rule(shared.LeasesGroup, "leases", append(slices.Clip(full), "deletecollection")...),
		shared.Rule("policy", "poddisruptionbudgets", full...),
	}
}
