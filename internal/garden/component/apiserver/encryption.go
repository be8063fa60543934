package apiserver

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/shared"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

const (
	encryptionFolder    = "/etc/kubernetes/etcd-encryption-secret"
	encryptionKeyLength = 32
)

// OfGardener returns the resources that gardener-apiserver encrypts, of those of both API servers.
func OfGardener(resources []string) []string {
	return slices.DeleteFunc(slices.Clone(resources), func(each string) bool { return !ofGardener(each) })
}

// OfKubernetes returns the resources that kube-apiserver encrypts, of those of both API servers.
func OfKubernetes(resources []string) []string {
	return slices.DeleteFunc(slices.Clone(resources), ofGardener)
}

// ofGardener is false for resources of definitions, such as those of dashboard.gardener.cloud, which kube-apiserver serves.
func ofGardener(resource string) bool {
	_, group, _ := strings.Cut(resource, ".")
	return slices.Contains(versions.GardenerGroups(), group)
}

// NewKeyPopulated is an annotation of the Deployment of an API server with the value "true". The operator sets it when all Pods can read
// with the new encryption key, so that from then on they write with it. The operator removes it in phase Completing. Missing: in phase
// Preparing, Pods write with the old key.
const NewKeyPopulated = "credentials.gardener.cloud/new-encryption-key-populated"

// EncryptionKeys returns the keys in the order in which an API server tries them; it writes with the first one. Old is the Secret with the
// predecessor of the current key, nil if there is none.
func EncryptionKeys(v values.Values, current, old *corev1.Secret, live *appsv1.Deployment) ([]secretconfig.UsableEncryptionKey, error) {
	first, second := current, old
	if old != nil && AddsKey(v, live) {
		first, second = old, current
	}
	keys := make([]secretconfig.UsableEncryptionKey, 0, 2)
	for _, each := range []*corev1.Secret{first, second} {
		if each == nil {
			continue
		}
		key, err := secretconfig.ParseEncryptionKey(each.Data)
		if err != nil {
			return nil, fmt.Errorf("read encryption key in Secret %s: %w; restore the Secret, because without it encrypted data cannot be read",
				each.Name, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// AddsKey reports whether the deployment only makes a new encryption key known, because Pods that do not know it could not read what others
// write with it. When it is rolled out, NewKeyPopulated must be set, and the objects deployed again. Without a Deployment there are no
// Pods.
func AddsKey(v values.Values, live *appsv1.Deployment) bool {
	return v.EncryptionPhase == operatorv1alpha1.RotationPreparing && live != nil && live.Annotations[NewKeyPopulated] != "true"
}

// SetMarks sets NewKeyPopulated and the annotation with its key on a Deployment whose Pods write with a new key.
func SetMarks(v values.Values, deployment, live *appsv1.Deployment, key string) {
	writes := v.EncryptionPhase == operatorv1alpha1.RotationPreparing && !AddsKey(v, live)
	if writes || live != nil && live.Annotations[NewKeyPopulated] == "true" {
		metav1.SetMetaDataAnnotation(&deployment.ObjectMeta, NewKeyPopulated, "true")
		metav1.SetMetaDataAnnotation(&deployment.ObjectMeta, operatorv1alpha1.AnnotationEncryptionKey, key)
	}
}

// OutdatedMarks returns the annotations of the live Deployment, nil if there is none, that are about an earlier rotation of the encryption
// key: with them, the next rotation would skip a step. Key is the name of the Secret with the current key.
func OutdatedMarks(v values.Values, live *appsv1.Deployment, key string) []string {
	if live == nil {
		return nil
	}
	of := live.Annotations[operatorv1alpha1.AnnotationEncryptionKey]
	otherKey := of != "" && of != key
	rotates := v.EncryptionPhase == operatorv1alpha1.RotationPreparing || v.EncryptionPhase == operatorv1alpha1.RotationPrepared
	var outdated []string
	for mark, is := range map[string]bool{
		NewKeyPopulated: !rotates || otherKey, operatorv1alpha1.AnnotationEncryptionKey: !rotates || otherKey,
		ResourcesLabeled: otherKey || AddsKey(v, live), Snapshotted: otherKey || AddsKey(v, live),
	} {
		if _, marked := live.Annotations[mark]; marked && is {
			outdated = append(outdated, mark)
		}
	}
	return outdated
}

// EncryptionKey returns the request for the key with which the API server encrypts data in etcd. Both API servers have the provider of
// kube-apiserver.
func (s Server) EncryptionKey(v values.Values) secrets.Request {
	return secrets.Request{
		Config: secretconfig.EncryptionKey{
			Name: s.Name + "-etcd-encryption-key", Provider: encryptionProvider(v), SecretLength: encryptionKeyLength,
		},
		Persist: true, KeepOld: true, IgnoreOld: v.EncryptionPhase == operatorv1alpha1.RotationCompleting ||
			v.EncryptionPhase == operatorv1alpha1.RotationCompleted,
	}
}

// encryptionProvider is empty for aescbc, as keys have it from before there was a choice.
func encryptionProvider(v values.Values) secretconfig.EncryptionProvider {
	config := v.KubeAPIServer.EncryptionConfig
	if config == nil || config.Provider == nil {
		return ""
	}
	provider := secretconfig.EncryptionProvider(ptr.Deref(config.Provider.Type, ""))
	if provider == secretconfig.AESCBC {
		return ""
	}
	return provider
}

// CheckProvider fails if the Garden asks for another provider than an existing key has, and it is not known how objects are encrypted: all
// Pods would have to use the new key at once, and some could not read what others write.
func (s Server) CheckProvider(v values.Values, existing *corev1.Secret) error {
	used := cmp.Or(secretconfig.EncryptionProvider(existing.Data[secretconfig.DataKeyEncryptionProvider]), secretconfig.AESCBC)
	if wanted := cmp.Or(encryptionProvider(v), secretconfig.AESCBC); wanted != used {
		return fmt.Errorf("%s.encryptionConfig.provider.type is %s, but the encryption key in Secret %s/%s is for %s, and the status of the "+
			"Garden does not say how objects are encrypted; set it to %s, and change it after a reconciliation",
			s.Path, wanted, s.Namespace, existing.Name, used, used)
	}
	return nil
}

// Encryption is what an API server encrypts.
type Encryption struct {
	// Config has further resources of the Garden; it may be nil.
	Config *operatorv1alpha1.EncryptionConfig
	// Always are the resources that are encrypted in every Garden.
	Always []string
	// Former are resources that have been encrypted. Those that the Garden no longer has are written as plain text and can still be read.
	Former []string
	Keys   []secretconfig.UsableEncryptionKey
}

// EncryptionPart configures what is encrypted.
func (s Server) EncryptionPart(e Encryption) (Part, error) {
	resources := slices.Concat(ptr.Deref(e.Config, operatorv1alpha1.EncryptionConfig{}).Resources, e.Always)
	decrypted := slices.DeleteFunc(slices.Clone(e.Former), func(each string) bool { return slices.Contains(resources, each) })
	content, err := secretconfig.Encryption{Resources: resources, Decrypted: decrypted, Keys: e.Keys}.YAML()
	if err != nil {
		return Part{}, fmt.Errorf("render encryption configuration: %w", err)
	}
	const file = secretconfig.DataKeyEncryptionConfiguration
	name := s.Name + "-etcd-encryption-configuration"
	return Part{
		Volume: "etcd-encryption-secret", Folder: encryptionFolder, Private: true,
		Object: shared.UniqueSecret(s.Namespace, name, map[string]string{"role": name}, map[string][]byte{file: content}),
		Args:   []string{"--encryption-provider-config=" + encryptionFolder + "/" + file},
	}, nil
}
