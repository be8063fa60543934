package gardenerapiserver

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// Component is gardener-apiserver. It has steps of its own: a new encryption key takes two deployments.
var Component = complete(gardener.Component(Name, "Gardener API Server", component.Task{
	After: []string{component.KubeAPIServer, component.VirtualResourceManager},
	Does: "creates gardener-apiserver with ManagedResource `gardener-apiserver-runtime`, and first its rights. A new encryption key takes " +
		"[two deployments](#encryption-keys)",
}))

func complete(row component.Component) component.Component {
	row.Own, row.Ignored = component.Own{Deploy: true, Await: true}, Ignored
	row.Await = component.Task{
		Name: "Waiting until Gardener API server rolled out",
		Does: "waits until its Pods are [available](#what-takes-time) and no old Pod is left, and then creates ManagedResource " +
			"`gardener-apiserver-virtual`, with the APIServices",
	}
	row.KeyUsers = []component.Object{
		{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Name: Name},
		{GroupVersionKind: rollout.ManagedResource, Name: RuntimeManagedResource},
	}
	row.Credentials = []component.Credential{
		{
			Name: EncryptionKeyName, Request: EncryptionKey, Rotation: rotation.ETCDEncryptionKey, Irreplaceable: true,
			Purpose: "encrypts resources of Gardener in etcd", Users: "gardener-apiserver", Restored: component.FromBackup,
		},
		{
			Name: WorkloadIdentityKeyName, Request: WorkloadIdentityKey, Rotation: rotation.WorkloadIdentityKey, Irreplaceable: true, Early: true,
			Purpose: "signs and verifies tokens of workload identities", Users: "gardener-apiserver, cloud providers",
			Restored: component.FromBackup,
		},
		{
			Name: Name, Request: ServerCertificate, Early: true, Purpose: "serves the API of Gardener", Users: "gardener-apiserver",
			Restored: component.GeneratedAgain,
		},
	}
	return row
}
