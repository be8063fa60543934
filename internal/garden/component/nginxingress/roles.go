package nginxingress

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/shared"
)

const rolePrefix = "gardener.cloud:seed:nginx-ingress"

func roles(owner shared.Owner) []client.Object {
	core, networking, leases := shared.Groups(""), shared.Groups("networking.k8s.io"), shared.Groups("coordination.k8s.io")
	slices := shared.Groups("discovery.k8s.io")
	return []client.Object{
		owner.ClusterRole(rolePrefix,
			shared.Rule(core, shared.Resources("endpoints", "nodes", "pods", "secrets"), "list", "watch"),
			shared.Rule(core, shared.Resources("nodes"), "get"),
			shared.Rule(core, shared.Resources("services", "configmaps"), "get", "list", "update", "watch"),
			shared.Rule(networking, shared.Resources("ingresses", "ingressclasses"), "get", "list", "watch"),
			shared.Rule(slices, shared.Resources("endpointslices"), "get", "list", "watch"),
			shared.Rule(core, shared.Resources("events"), "create", "patch"),
			shared.Rule(networking, shared.Resources("ingresses/status"), "update"),
			shared.Rule(leases, shared.Resources("leases"), "list", "watch"),
		),
		owner.ClusterRoleBinding(rolePrefix, rolePrefix, app),
		owner.RoleIn(rolePrefix+":role",
			shared.Rule(core, shared.Resources("configmaps", "namespaces", "pods", "secrets"), "get"),
			shared.Rule(core, shared.Resources("endpoints"), "create", "get", "update"),
			shared.Named(shared.Rule(leases, shared.Resources("leases"), "get", "update"), leader),
			shared.Rule(leases, shared.Resources("leases"), "create"),
			shared.Rule(slices, shared.Resources("endpointslices"), "get", "list", "watch"),
		),
		owner.RoleBinding(rolePrefix+":role-binding", rolePrefix+":role", app),
	}
}
