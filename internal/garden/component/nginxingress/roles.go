package nginxingress

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/shared"
)

const rolePrefix = "gardener.cloud:seed:nginx-ingress"

func roles(owner shared.Owner) []client.Object {
	const core, networking, slices = "", "networking.k8s.io", "discovery.k8s.io"
	return []client.Object{
		owner.ClusterRole(rolePrefix,
			shared.Rule(core, "endpoints;nodes;pods;secrets", "list", "watch"),
			shared.Rule(core, "nodes", "get"),
			shared.Rule(core, "services;configmaps", "get", "list", "update", "watch"),
			shared.Rule(networking, "ingresses;ingressclasses", "get", "list", "watch"),
			shared.Rule(slices, "endpointslices", "get", "list", "watch"),
			shared.Rule(core, "events", "create", "patch"),
			shared.Rule(networking, "ingresses/status", "update"),
			shared.Rule(shared.LeasesGroup, "leases", "list", "watch"),
		),
		owner.ClusterRoleBinding(rolePrefix, rolePrefix, app),
		owner.RoleIn(rolePrefix+":role",
			shared.Rule(core, "configmaps;namespaces;pods;secrets", "get"),
			shared.Rule(core, "endpoints", "create", "get", "update"),
			shared.Named(shared.Rule(shared.LeasesGroup, "leases", "get", "update"), leader),
			shared.Rule(shared.LeasesGroup, "leases", "create"),
			shared.Rule(slices, "endpointslices", "get", "list", "watch"),
		),
		owner.RoleBinding(rolePrefix+":role-binding", rolePrefix+":role", app),
	}
}
