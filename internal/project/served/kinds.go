package served

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	securityv1alpha1 "github.com/espalier-dev/espalier/api/security/v1alpha1"
)

// Kind is a kind that counts as use of a project.
type Kind string

// The kinds that count as use of a project. Secret is in the core group and always served. CredentialsBinding is in
// security.gardener.cloud/v1alpha1, and the other kinds are in core.gardener.cloud/v1beta1.
const (
	Shoot         Kind = "Shoot"
	Plant         Kind = "Plant"
	BackupEntry   Kind = "BackupEntry"
	SecretBinding Kind = "SecretBinding"
	Quota         Kind = "Quota"
	Secret        Kind = "Secret"

	CredentialsBinding Kind = "CredentialsBinding"
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{Shoot, Plant, BackupEntry, SecretBinding, CredentialsBinding, Quota, Secret}
}

// Bindings returns the kinds whose Objects have a Binding.
func Bindings() []Kind { return []Kind{SecretBinding, CredentialsBinding} }

// Resource returns the resource under which the API server serves a kind.
func (k Kind) Resource() schema.GroupVersionResource {
	if k == Secret {
		return schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	}
	return k.version().WithResource(map[Kind]string{
		Shoot: "shoots", Plant: "plants", BackupEntry: "backupentries", SecretBinding: "secretbindings", Quota: "quotas",
		CredentialsBinding: "credentialsbindings",
	}[k])
}

// versions are the versions of the groups that serve the kinds, except Secret.
func versions() []schema.GroupVersion {
	return []schema.GroupVersion{corev1beta1.SchemeGroupVersion, securityv1alpha1.SchemeGroupVersion}
}

// version is the group and version that serves the kind. It must not be used for Secret.
func (k Kind) version() schema.GroupVersion {
	if k == CredentialsBinding {
		return securityv1alpha1.SchemeGroupVersion
	}
	return corev1beta1.SchemeGroupVersion
}

// typicalResource is a resource that every complete server of the group has. A server that does not list it is still starting or is
// shutting down.
func typicalResource(version schema.GroupVersion) string {
	if version == securityv1alpha1.SchemeGroupVersion {
		return "workloadidentities"
	}
	return "projects"
}

// definition is the name that a CustomResourceDefinition of the kind has.
func (k Kind) definition() string { return k.Resource().GroupResource().String() }
