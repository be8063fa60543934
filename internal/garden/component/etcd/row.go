package etcd

import (
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
)

// Etcds are deployed, awaited and destroyed; their deletion is confirmed by an annotation.
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcds,verbs=get;watch;create;update;patch;delete,namespace=garden,roleName=espalier-garden-operator-garden

// Component is both etcds. They have steps of their own: while certificate authorities are rotated, the members first trust a new one.
var Component = component.Component{
	Name: component.Etcds, Plane: component.Virtual, Condition: operatorv1alpha1.VirtualComponentsHealthy,
	Own: component.Own{Deploy: true, Await: true, Destroy: true},
	Deploy: component.Task{
		Name:  "Deploying main and events ETCDs of virtual garden",
		After: []string{component.RuntimeDeployed, component.Preconditions, component.BackupEntry},
		Does: "generates their certificates, and creates or updates the Etcds `virtual-garden-etcd-main` and `-events`. While a rotation of " +
			"the certificate authorities is in phase `Preparing`, the members of a highly available etcd first trust the new authority",
	},
	Await:   component.Task{Name: "Waiting until main and event ETCDs report readiness", Does: "waits for both"},
	Destroy: component.Task{Name: "Destroying main and events ETCDs of virtual garden", After: []string{component.KubeAPIServer}},
	Etcds:   []string{Main.Name(), Events.Name()},
	Credentials: []component.Credential{
		{
			Name: ClientCertificateName, Request: ClientCertificate,
			Purpose: "authenticates clients of etcds", Users: "kube-apiserver, gardener-apiserver, etcd-druid, Prometheus of the garden",
			Restored: component.GeneratedAgain,
		},
		generated(serverCertificate+string(Main), "serves clients of the main etcd"),
		generated(serverCertificate+string(Events), "serves clients of the etcd for Events"),
		generated(peerCertificate+string(Main), "authenticates members of a highly available main etcd"),
		generated(peerCertificate+string(Events), "authenticates members of a highly available etcd for Events"),
	},
}

// generated returns the row of a certificate that a step generates.
func generated(name, purpose string) component.Credential {
	return component.Credential{
		Name: name, Purpose: purpose, Users: "etcds", Lifetime: component.CertificateLifetime, Restored: component.GeneratedAgain,
	}
}
