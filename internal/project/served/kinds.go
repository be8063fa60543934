package served

import (
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	securityv1alpha1 "github.com/espalier-dev/espalier/api/security/v1alpha1"
)

// Kind is a kind that counts as use of a project.
type Kind string

// The kinds. Secret is in the core group and always served. CredentialsBinding is in security.gardener.cloud/v1alpha1, and the others are
// in core.gardener.cloud/v1beta1.
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

// Bindings returns the kinds whose objects BindingOf understands.
func Bindings() []Kind { return []Kind{SecretBinding, CredentialsBinding} }

// Names of the indexes. A key is "<namespace>", or "<namespace>/<name>" where the name of the index has two parts.
const (
	// ByNamespace has all objects of a namespace. All kinds except Bindings have this index.
	ByNamespace = "namespace"
	// ByBinding has the Shoots that use a SecretBinding.
	ByBinding = "namespace/secretbinding"
	// ByCredentialsBinding has the Shoots that use a CredentialsBinding.
	ByCredentialsBinding = "namespace/credentialsbinding"
	// ByCredentialsNamespace has the bindings of one kind whose credentials are in a namespace.
	ByCredentialsNamespace = "credentials-namespace"
	// ByQuota has the bindings of one kind that refer to a Quota, at any position of their list.
	ByQuota = "quota-namespace/quota"
)

// Resource returns the resource under which the API server serves a kind.
func (k Kind) Resource() schema.GroupVersionResource {
	plural := map[Kind]string{
		Shoot: "shoots", Plant: "plants", BackupEntry: "backupentries", SecretBinding: "secretbindings", Quota: "quotas",
		CredentialsBinding: "credentialsbindings",
	}[k]
	if k == Secret {
		return schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	}
	return k.version().WithResource(plural)
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

// typical is a resource that every complete server of the group has. A server that does not list it is still starting or is shutting down.
func typical(version schema.GroupVersion) string {
	if version == securityv1alpha1.SchemeGroupVersion {
		return "workloadidentities"
	}
	return "projects"
}

// definition is the name that a CustomResourceDefinition of the kind has.
func (k Kind) definition() string { return k.Resource().GroupResource().String() }

func (k Kind) indexers() toolscache.Indexers {
	switch k {
	case Shoot:
		return toolscache.Indexers{ByNamespace: namespaceOf, ByBinding: secretBindingOf, ByCredentialsBinding: credentialsBindingOf}
	case SecretBinding, CredentialsBinding:
		return toolscache.Indexers{ByCredentialsNamespace: credentialsNamespaceOf, ByQuota: quotasOf}
	default:
		return toolscache.Indexers{ByNamespace: namespaceOf}
	}
}

// Key names an object of a namespace in an index.
func Key(namespace, name string) string { return namespace + "/" + name }

func namespaceOf(object any) ([]string, error) {
	if found, ok := object.(metav1.Object); ok {
		return []string{found.GetNamespace()}, nil
	}
	return nil, nil
}

func secretBindingOf(object any) ([]string, error) {
	if shoot, ok := object.(*corev1beta1.Shoot); ok {
		return keyOf(shoot.Namespace, shoot.Spec.SecretBindingName), nil
	}
	return nil, nil
}

func credentialsBindingOf(object any) ([]string, error) {
	if shoot, ok := object.(*corev1beta1.Shoot); ok {
		return keyOf(shoot.Namespace, shoot.Spec.CredentialsBindingName), nil
	}
	return nil, nil
}

func keyOf(namespace string, name *string) []string {
	if name == nil || *name == "" {
		return nil
	}
	return []string{Key(namespace, *name)}
}

func credentialsNamespaceOf(object any) ([]string, error) {
	if binding, ok := BindingOf(object); ok {
		return []string{binding.Credentials.Namespace}, nil
	}
	return nil, nil
}

func quotasOf(object any) ([]string, error) {
	binding, ok := BindingOf(object)
	if !ok {
		return nil, nil
	}
	keys := make([]string, 0, len(binding.Quotas))
	for _, quota := range binding.Quotas {
		keys = append(keys, Key(quota.Namespace, quota.Name))
	}
	return keys, nil
}

// intern makes equal names share their memory.
func intern(name string) string { return unique.Make(name).Value() }
