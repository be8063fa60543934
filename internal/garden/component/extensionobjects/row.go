package extensionobjects

import "github.com/espalier-dev/espalier/internal/garden/component"

// Objects of extensions are deployed, awaited and destroyed; their deletion is confirmed by an annotation. Names of BackupBuckets and
// BackupEntries contain the UID of the Garden.
// +kubebuilder:rbac:groups=extensions.gardener.cloud,resources=dnsrecords;extensions,verbs=get;list;watch;create;update;patch;delete,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=extensions.gardener.cloud,resources=backupbuckets;backupentries,verbs=get;watch;create;update;patch;delete
// The operator waits for the Extensions that offer the types of these objects.
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=extensions,verbs=list;watch

// BackupBucketComponent is the bucket for the backups of the main etcd. The etcds start after it.
var BackupBucketComponent = component.Component{
	Name: component.BackupBucket, Plane: component.Virtual, Own: component.Own{Deploy: true, Destroy: true},
	Deploy: component.Task{
		Name:  "Reconciling main ETCD backup bucket",
		After: []string{component.ExtensionDefinitions, component.RuntimeSystem, component.Preconditions},
		Does: "creates the BackupBucket of the main etcd, and waits until an [extension](#objects-of-extensions) has reconciled it; skipped " +
			"if the Garden has no backup, or names its bucket",
	},
	Destroy: component.Task{Name: "Destroying main ETCD backup bucket", After: []string{component.BackupEntry}},
}

// BackupEntryComponent is the folder in the bucket.
var BackupEntryComponent = component.Component{
	Name: component.BackupEntry, Plane: component.Virtual, Own: component.Own{Deploy: true, Destroy: true},
	Deploy: component.Task{
		Name: "Reconciling main ETCD backup entry", After: []string{component.BackupBucket},
		Does: "creates the BackupEntry of the main etcd, and waits until an [extension](#objects-of-extensions) has reconciled it; skipped " +
			"in the same cases, and if feature gate `BackupEntryForGarden` is `false`",
	},
	Destroy: component.Task{Name: "Destroying main ETCD backup entry", After: []string{component.Etcds}},
}

// DNSRecordsComponent is the DNSRecords of the domains of the Garden. They are destroyed after the programs that clients reach by them.
var DNSRecordsComponent = component.Component{
	Name: component.DNSRecords, Plane: component.Virtual, Own: component.Own{Deploy: true, Destroy: true},
	Deploy: component.Task{
		Name:  "Reconciling DNSRecords for virtual garden cluster and ingress controller",
		After: []string{component.ExposedService},
		Does: "deletes stale DNSRecords, creates the others, and waits until an [extension](#objects-of-extensions) has reconciled them; " +
			"skipped if the Garden has no `spec.dns`",
	},
	Destroy: component.Task{
		Name: "Destroying DNSRecords for virtual garden cluster and ingress controller", After: []string{component.Etcds},
	},
}

// EarlyExtensionsComponent are the Extensions that are reconciled before kube-apiserver is deployed. Its task Destroy deletes all
// Extensions of the operator that still exist.
var EarlyExtensionsComponent = component.Component{
	Name: component.EarlyExtensions, Plane: component.Virtual, Own: component.Own{Deploy: true, Destroy: true},
	Deploy: component.Task{
		Name:  "Deploying extension resources before kube-apiserver",
		After: []string{component.ExtensionDefinitions, component.RuntimeSystem, component.Preconditions},
		Does: "creates the objects of kind Extension with lifecycle `BeforeKubeAPIServer`, and waits until an " +
			"[extension](#objects-of-extensions) has reconciled them",
	},
	Destroy: component.Task{Name: "Destroying extension resources", After: []string{component.LateExtensions, component.Etcds}},
}

// LateExtensionsComponent are the Extensions that are reconciled after kube-apiserver is deployed. Its task Destroy deletes the Extensions
// that must be deleted before kube-apiserver is destroyed, and waits until they are gone.
var LateExtensionsComponent = component.Component{
	Name: component.LateExtensions, Plane: component.Virtual, Own: component.Own{Deploy: true, Destroy: true},
	Deploy: component.Task{
		Name: "Deploying extension resources", After: []string{component.Connection, component.EarlyExtensions},
		Does: "deletes stale objects of kind Extension, creates the others, and waits until an [extension](#objects-of-extensions) has " +
			"reconciled them",
	},
	Destroy: component.Task{Name: "Destroying extension resources before kube-apiserver", After: []string{component.VirtualUnused}},
}
