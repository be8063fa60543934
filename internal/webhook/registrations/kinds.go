package registrations

import "strings"

// The groups whose objects are validated and protected. Each is served in one version.
const (
	groupExtensions = "extensions.gardener.cloud"
	groupDruid      = "druid.gardener.cloud"
	versionV1alpha1 = "v1alpha1"
)

// Kind is a kind of objects that the server validates.
type Kind struct {
	Group, Version, Kind, Plural string
	Namespaced                   bool
}

// Path is where the server validates the kind.
func (k Kind) Path() string {
	return "/validate-" + strings.ReplaceAll(k.Group, ".", "-") + "-" + k.Version + "-" + strings.ToLower(k.Kind)
}

// Kinds are all validated kinds, in the order of their webhooks.
func Kinds() []Kind {
	return []Kind{
		{groupExtensions, versionV1alpha1, "BackupBucket", "backupbuckets", false},
		{groupExtensions, versionV1alpha1, "BackupEntry", "backupentries", false},
		{groupExtensions, versionV1alpha1, "Bastion", "bastions", true},
		{groupExtensions, versionV1alpha1, "ContainerRuntime", "containerruntimes", true},
		{groupExtensions, versionV1alpha1, "ControlPlane", "controlplanes", true},
		{groupExtensions, versionV1alpha1, "DNSRecord", "dnsrecords", true},
		{groupDruid, versionV1alpha1, "Etcd", "etcds", true},
		{groupExtensions, versionV1alpha1, "Extension", "extensions", true},
		{groupExtensions, versionV1alpha1, "Infrastructure", "infrastructures", true},
		{groupExtensions, versionV1alpha1, "Network", "networks", true},
		{groupExtensions, versionV1alpha1, "OperatingSystemConfig", "operatingsystemconfigs", true},
		{groupExtensions, versionV1alpha1, "Worker", "workers", true},
	}
}
