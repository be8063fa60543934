package extensionvalidation

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

// The groups of all kinds, and their common version. API servers serve each group in this version only.
const (
	GroupExtensions = "extensions.gardener.cloud"
	GroupDruid      = "druid.gardener.cloud"
	Version         = "v1alpha1"
)

// Kind is a kind whose objects are validated when they are created or updated.
type Kind struct {
	// Name is the handler's name in metrics and logs. With the suffix .resources.gardener.cloud it is the name of the webhook.
	Name string
	// Path is the path at which the server serves the handler.
	Path string
	// Group, Plural and Kind are the names of the kind in the API.
	Group, Plural, Kind string
	// Namespaced is false for cluster-scoped kinds.
	Namespaced bool
	// ConfirmDeletion is true if the deletion of an object of the kind needs a confirmation; see package deletionprotection.
	ConfirmDeletion bool
	// Handler judges objects of the kind.
	Handler review.Handler
}

// Kinds returns all kinds, in the order of their webhooks. For a new kind whose deletion needs a confirmation, also add the resource to the
// RBAC marker in deletionprotection/handler.go: the server needs the right to list the kind.
func Kinds() []Kind {
	return []Kind{
		extension("BackupBucket", "backupbuckets", rules[backupBucketSpec, unread]{
			clusterWide: true, required: []string{"type", "region", "secretRef.name"}, immutable: []string{"type", "region"},
		}),
		extension("BackupEntry", "backupentries", rules[backupEntrySpec, unread]{
			clusterWide: true, required: []string{"type", "bucketName", "region", "secretRef.name"}, immutable: []string{"type"},
		}),
		extension("Bastion", "bastions", rules[bastionSpec, unread]{
			shortLived: true, required: []string{"type", "userData", "ingress"}, immutable: []string{"type", "userData"},
		}),
		extension("ContainerRuntime", "containerruntimes", rules[containerRuntimeSpec, unread]{
			required: []string{"type", "binaryPath", "workerPool.name"}, immutable: []string{"type", "workerPool.name"},
		}),
		extension("ControlPlane", "controlplanes", rules[controlPlaneSpec, unread]{
			required: []string{"type", "region", "secretRef.name"}, immutable: []string{"type", "purpose", "region"},
			check: checkControlPlane,
		}),
		extension("DNSRecord", "dnsrecords", rules[dnsRecordSpec, unread]{
			required: []string{"type", "secretRef.name"}, immutable: []string{"type", "name", "recordType"}, check: checkDNSRecord,
		}),
		kind(GroupDruid, "Etcd", "etcds", rules[etcdSpec, unread]{
			immutable: []string{"backup.store.prefix"}, check: checkEtcd, freeze: freezeShowing[etcdSpec],
		}),
		extension("Extension", "extensions", rules[extensionSpec, unread]{required: []string{"type"}, immutable: []string{"type"}}),
		extension("Infrastructure", "infrastructures", rules[infrastructureSpec, unread]{
			required: []string{"type", "region", "secretRef.name"}, immutable: []string{"type", "region"},
		}),
		extension("Network", "networks", rules[networkSpec, unread]{
			required: []string{"type"}, immutable: []string{"type", "podCIDR", "serviceCIDR", "ipFamilies"}, check: checkNetwork,
		}),
		extension("OperatingSystemConfig", "operatingsystemconfigs", rules[operatingSystemConfigSpec, operatingSystemConfigStatus]{
			required: []string{"type"}, immutable: []string{"type", "purpose"}, check: checkOperatingSystemConfig,
		}),
		extension("Worker", "workers", rules[workerSpec, unread]{
			required: []string{"type", "region", "secretRef.name"}, immutable: []string{"type", "region"}, check: checkWorker,
		}),
	}
}

// extension returns a kind of the group extensions.gardener.cloud, with the fields that all kinds of this group share.
func extension[Spec, Status any](name, plural string, r rules[Spec, Status]) Kind {
	r.kind, r.freeze = schema.GroupKind{Group: GroupExtensions, Kind: name}, freezeListing[Spec]
	return kind(GroupExtensions, name, plural, r)
}

func kind[Spec, Status any](group, name, plural string, r rules[Spec, Status]) Kind {
	r.requiredFields, r.immutableFields = fieldsOf[Spec](r.required), fieldsOf[Spec](r.immutable)
	return Kind{
		Name:  "validation.extensions." + plural,
		Path:  "/validate-" + strings.ReplaceAll(group, ".", "-") + "-" + Version + "-" + strings.ToLower(name),
		Group: group, Plural: plural, Kind: name, Namespaced: !r.clusterWide, ConfirmDeletion: !r.shortLived, Handler: &r,
	}
}
