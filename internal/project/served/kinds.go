package served

import (
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// Kind is one of those that the use of projects is judged by.
type Kind string

// The kinds. Secret is of the core group, and always served; the others are of core.gardener.cloud/v1beta1.
const (
	Shoot         Kind = "Shoot"
	Plant         Kind = "Plant"
	BackupEntry   Kind = "BackupEntry"
	SecretBinding Kind = "SecretBinding"
	Quota         Kind = "Quota"
	Secret        Kind = "Secret"
)

// Kinds returns all of them.
func Kinds() []Kind { return []Kind{Shoot, Plant, BackupEntry, SecretBinding, Quota, Secret} }

// Names of the indexes. The keys of each are "<namespace>", or "<namespace>/<name>" where two names are given.
const (
	// ByNamespace has all objects of a namespace. All kinds have it, but SecretBinding.
	ByNamespace = "namespace"
	// ByBinding has the Shoots that use a SecretBinding.
	ByBinding = "namespace/secretbinding"
	// BySecretNamespace has the SecretBindings whose Secret is in a namespace.
	BySecretNamespace = "secret-namespace"
	// ByQuota has the SecretBindings that name a Quota, at whatever place.
	ByQuota = "quota-namespace/quota"
)

// Resource returns what the API server serves a kind as.
func (k Kind) Resource() schema.GroupVersionResource {
	plural := map[Kind]string{
		Shoot: "shoots", Plant: "plants", BackupEntry: "backupentries", SecretBinding: "secretbindings", Quota: "quotas",
	}[k]
	if k == Secret {
		return schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	}
	return corev1beta1.SchemeGroupVersion.WithResource(plural)
}

// definition is the name of the CustomResourceDefinition that would serve the kind.
func (k Kind) definition() string { return k.Resource().GroupResource().String() }

func (k Kind) indexers() toolscache.Indexers {
	switch k {
	case Shoot:
		return toolscache.Indexers{ByNamespace: namespaceOf, ByBinding: bindingOf}
	case SecretBinding:
		return toolscache.Indexers{BySecretNamespace: secretNamespaceOf, ByQuota: quotasOf}
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

func bindingOf(object any) ([]string, error) {
	shoot, ok := object.(*corev1beta1.Shoot)
	if !ok || shoot.Spec.SecretBindingName == nil || *shoot.Spec.SecretBindingName == "" {
		return nil, nil
	}
	return []string{Key(shoot.Namespace, *shoot.Spec.SecretBindingName)}, nil
}

func secretNamespaceOf(object any) ([]string, error) {
	if binding, ok := object.(*corev1beta1.SecretBinding); ok {
		return []string{binding.SecretRef.Namespace}, nil
	}
	return nil, nil
}

func quotasOf(object any) ([]string, error) {
	binding, ok := object.(*corev1beta1.SecretBinding)
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
