package extensionvalidation

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

const (
	extensions = "extensions.gardener.cloud"
	druid      = "druid.gardener.cloud"
	version    = "v1alpha1"
)

// Kind is a kind whose objects are validated when they are created or updated, in version v1alpha1.
type Kind struct {
	// Name is the handler's in metrics and logs; with .resources.gardener.cloud it is the webhook's.
	Name string
	// Path is where it is served.
	Path string
	// Group, Plural and Kind are what the API calls it.
	Group, Plural, Kind string
	// Namespaced is false for kinds of the cluster.
	Namespaced bool
	handler    review.Handler
}

// Handler judges objects of the kind.
func (k Kind) Handler() review.Handler { return k.handler }

// Kinds lists all kinds, in the order of their webhooks.
func Kinds() []Kind {
	return []Kind{
		extension("BackupBucket", "backupbuckets", backupBuckets()),
		extension("BackupEntry", "backupentries", backupEntries()),
		extension("Bastion", "bastions", bastions()),
		extension("ContainerRuntime", "containerruntimes", containerRuntimes()),
		extension("ControlPlane", "controlplanes", controlPlanes()),
		extension("DNSRecord", "dnsrecords", dnsRecords()),
		kind(druid, "Etcd", "etcds", &handler[etcdSpec, unread]{rules: etcds()}),
		extension("Extension", "extensions", plainExtensions()),
		extension("Infrastructure", "infrastructures", infrastructures()),
		extension("Network", "networks", networks()),
		extension("OperatingSystemConfig", "operatingsystemconfigs", operatingSystemConfigs()),
		extension("Worker", "workers", workers()),
	}
}

// extension adds to a kind what all kinds of the group have in common.
func extension[Spec, Status any](name, plural string, r rules[Spec, Status]) Kind {
	r.freeze = freezeListing[Spec]
	return kind(extensions, name, plural, &handler[Spec, Status]{rules: r, kind: schema.GroupKind{Group: extensions, Kind: name}})
}

func kind[Spec, Status any](group, name, plural string, h *handler[Spec, Status]) Kind {
	return Kind{
		Name:  "validation.extensions." + plural,
		Path:  "/validate-" + strings.ReplaceAll(group, ".", "-") + "-" + version + "-" + strings.ToLower(name),
		Group: group, Plural: plural, Kind: name, Namespaced: h.rules.namespaced, handler: h,
	}
}
