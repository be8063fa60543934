package etcddruid

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/espalier-dev/espalier/internal/garden/component/rights"
)

const roleName = "gardener.cloud:system:etcd-druid"

func rules() []rbacv1.PolicyRule {
	full := rights.Read("create", "update", "patch", "delete")
	const core, druid = "", "druid.gardener.cloud"
	return []rbacv1.PolicyRule{
		rights.Rule(core, "pods", "get", "list", "watch", "delete", "deletecollection"),
		rights.Rule(core, "secrets;endpoints", "get", "list", "patch", "update", "watch"),
		rights.Rule(core, "events", "create", "get", "list", "watch", "patch", "update"),
		rights.Rule(core, "serviceaccounts;services;configmaps", full...),
		rights.Rule(core, "persistentvolumeclaims", "get", "list", "watch"),
		rights.Rule("rbac.authorization.k8s.io", "roles;rolebindings", full...),
		rights.Rule("apps;batch", "statefulsets;jobs", full...),
		rights.Rule(druid, "etcds;etcdcopybackupstasks;etcdopstasks", full...),
		rights.Rule(druid, "etcds/status;etcds/finalizers;etcdcopybackupstasks/status;etcdcopybackupstasks/finalizers;"+
			"etcdopstasks/status;etcdopstasks/finalizers", "get", "update", "patch", "create"),
		rights.Rule(rights.LeasesGroup, "leases", append(slices.Clip(full), "deletecollection")...),
		rights.Rule("policy", "poddisruptionbudgets", full...),
	}
}
