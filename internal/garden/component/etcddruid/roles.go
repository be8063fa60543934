package etcddruid

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/espalier-dev/espalier/internal/garden/component/shared"
)

const roleName = "gardener.cloud:system:etcd-druid"

func rules() []rbacv1.PolicyRule {
	full := shared.Read("create", "update", "patch", "delete")
	core, druid := shared.Groups(""), shared.Groups("druid.gardener.cloud")
	return []rbacv1.PolicyRule{
		shared.Rule(core, shared.Resources("pods"), "get", "list", "watch", "delete", "deletecollection"),
		shared.Rule(core, shared.Resources("secrets", "endpoints"), "get", "list", "patch", "update", "watch"),
		shared.Rule(core, shared.Resources("events"), "create", "get", "list", "watch", "patch", "update"),
		shared.Rule(core, shared.Resources("serviceaccounts", "services", "configmaps"), full...),
		shared.Rule(core, shared.Resources("persistentvolumeclaims"), "get", "list", "watch"),
		shared.Rule(shared.Groups("rbac.authorization.k8s.io"), shared.Resources("roles", "rolebindings"), full...),
		shared.Rule(shared.Groups("apps", "batch"), shared.Resources("statefulsets", "jobs"), full...),
		shared.Rule(druid, shared.Resources("etcds", "etcdcopybackupstasks", "etcdopstasks"), full...),
		shared.Rule(druid, shared.Resources(
			"etcds/status", "etcds/finalizers", "etcdcopybackupstasks/status", "etcdcopybackupstasks/finalizers",
			"etcdopstasks/status", "etcdopstasks/finalizers",
		), "get", "update", "patch", "create"),
		shared.Rule(shared.Groups("coordination.k8s.io"), shared.Resources("leases"), append(slices.Clip(full), "deletecollection")...),
		shared.Rule(shared.Groups("policy"), shared.Resources("poddisruptionbudgets"), full...),
	}
}
