package nginxingress

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/rights"
)

const rolePrefix = "gardener.cloud:seed:nginx-ingress"

// roles returns the rights of the controller. The controller reads only objects in the namespace of the Garden (see args), so it needs no
// right on Secrets of other namespaces; IngressClasses have no namespace.
func roles(owner object.Owner) []client.Object {
	const core, networking, slices = "", "networking.k8s.io", "discovery.k8s.io"
	return []client.Object{
		owner.ClusterRole(rolePrefix, rights.Rule(networking, "ingressclasses", rights.Read()...)),
		owner.ClusterRoleBinding(rolePrefix, rolePrefix, app),
		owner.RoleIn(rolePrefix+":role",
			rights.Rule(core, "namespaces", "get"),
			rights.Rule(core, "configmaps;endpoints;pods;secrets;services", rights.Read()...),
			rights.Rule(core, "events", "create", "patch"),
			rights.Rule(networking, "ingresses", rights.Read()...),
			rights.Rule(networking, "ingresses/status", "update"),
			rights.Named(rights.Rule(rights.LeasesGroup, "leases", "get", "update"), leader),
			rights.Rule(rights.LeasesGroup, "leases", "list", "watch", "create"),
			rights.Rule(slices, "endpointslices", rights.Read()...),
		),
		owner.RoleBinding(rolePrefix+":role-binding", rolePrefix+":role", app),
	}
}
