package nginxingress

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/shared"
)

const rolePrefix = "gardener.cloud:seed:nginx-ingress"

// roles returns the rights of the controller. The controller reads only objects in the namespace of the Garden (see args), so it needs no
// right on Secrets of other namespaces; IngressClasses have no namespace.
func roles(owner shared.Owner) []client.Object {
	const core, networking, slices = "", "networking.k8s.io", "discovery.k8s.io"
	return []client.Object{
		owner.ClusterRole(rolePrefix, shared.Rule(networking, "ingressclasses", shared.Read()...)),
		owner.ClusterRoleBinding(rolePrefix, rolePrefix, app),
		owner.RoleIn(rolePrefix+":role",
			shared.Rule(core, "namespaces", "get"),
			shared.Rule(core, "configmaps;endpoints;pods;secrets;services", shared.Read()...),
			shared.Rule(core, "events", "create", "patch"),
			shared.Rule(networking, "ingresses", shared.Read()...),
			shared.Rule(networking, "ingresses/status", "update"),
			shared.Named(shared.Rule(shared.LeasesGroup, "leases", "get", "update"), leader),
			shared.Rule(shared.LeasesGroup, "leases", "list", "watch", "create"),
			shared.Rule(slices, "endpointslices", shared.Read()...),
		),
		owner.RoleBinding(rolePrefix+":role-binding", rolePrefix+":role", app),
	}
}
