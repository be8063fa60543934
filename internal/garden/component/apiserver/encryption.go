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
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

const (
	encryptionVolume    = "etcd-encryption-secret"
	encryptionFolder    = "/etc/kubernetes/etcd-encryption-secret"
	encryptionKeyLength = 32

	keySuffix           = "-etcd-encryption-key"
	configurationSuffix = "-etcd-encryption-configuration"
)

// RoleLabel is a label on Secrets with encryption configurations. ConfigurationRole returns its value.
const RoleLabel = "role"

// OfGardener selects the resources that gardener-apiserver encrypts from the resources of both API servers.
func OfGardener(resources []string) []string {
	return slices.DeleteFunc(slices.Clone(resources), func(each string) bool { return !ofGardener(each) })
}

// OfKubernetes selects the resources that kube-apiserver encrypts from the resources of both API servers.
func OfKubernetes(resources []string) []string {
	return slices.DeleteFunc(slices.Clone(resources), ofGardener)
}

// ofGardener reports whether gardener-apiserver serves a resource. It is false for resources of CustomResourceDefinitions, for example of
// the group dashboard.gardener.cloud: kube-apiserver serves them.
func ofGardener(resource string) bool {
	_, group, _ := strings.Cut(resource, ".")
	return slices.Contains(versions.GardenerGroups(), group)
}

// NewKeyPopulated is an annotation of the Deployment of an API server with the value "true". The operator sets it when all Pods can read
// with the new encryption key, so that from then on they write with it. The operator removes it in phase Completing, when it has dropped
// the old key. Missing: in phase Preparing, Pods write with the old key, and in phase Completing, the operator does not drop the old key.
const NewKeyPopulated = "credentials.gardener.cloud/new-encryption-key-populated"

// EncryptionKeys returns the keys in the order in which an API server tries them; the API server writes with the first key. Old is the
// Secret with the predecessor of the current key, nil if there is none. Configured are the keys of the configuration that the live
// Deployment has, in their order; they are empty if they are not known.
//
// If the keys in configured are known and do not contain the old key, no Pod has written with the old key, and EncryptionKeys leaves it
// out. As long as AddsKey is true, the key with which the live Pods write stays the first key. A key that is in configured and that no
// Secret has any more stays until a rotation completes, because etcd may have data that only this key can read. EncryptionKeys fails if an
// aborted rotation would lead back to a key that the live Deployment does not have.
func EncryptionKeys(
	v values.Values, current, old *corev1.Secret, live *appsv1.Deployment, configured []secretconfig.UsableEncryptionKey,
) ([]secretconfig.UsableEncryptionKey, error) {
	var keys []secretconfig.UsableEncryptionKey
	for _, each := range []*corev1.Secret{current, old} {
		if each == nil {
			continue
		}
		key, err := secretconfig.ParseEncryptionKey(each.Data)
		if err != nil {
			return nil, fmt.Errorf("read encryption key in Secret %s: %w; restore the Secret, because without it encrypted data cannot be read",
				each.Name, err)
		}
		if each == current || live == nil || len(configured) == 0 || slices.Contains(configured, key) {
			keys = append(keys, key)
		}
	}
	wrong := live != nil && len(configured) > 0 && !slices.Contains(configured, keys[0]) && secrets.LeadsBack(current)
	if v.Aborting.Has(rotation.ETCDEncryptionKey) && wrong {
		return nil, fmt.Errorf("the rotation of the encryption key is not aborted with the key in Secret %s, because the encryption "+
			"configuration of Deployment %s/%s does not have it: it is from an earlier rotation; delete this Secret and the one that it is a copy "+
			"of, and restore the Secret with the key from before the aborted rotation", current.Name, live.Namespace, live.Name)
	}
	if v.Phases[rotation.ETCDEncryptionKey] == operatorv1alpha1.RotationCompleting {
		return keys, nil
	}
	switch adds := AddsKey(v, live); {
	case adds && len(configured) > 0:
		keys = slices.Concat(configured[:1], keys)
	case adds:
		slices.Reverse(keys)
	}
	var all []secretconfig.UsableEncryptionKey
	for _, each := range slices.Concat(keys, configured) {
		if !slices.Contains(all, each) {
			all = append(all, each)
		}
	}
	return all, nil
}

// ConfigurationRole returns the value of label role on the Secrets with the encryption configurations that contain the keys with logical
// name keyName. It is empty if keyName is not the logical name of encryption keys.
func ConfigurationRole(keyName string) string {
	server, isKey := strings.CutSuffix(keyName, keySuffix)
	if !isKey {
		return ""
	}
	return server + configurationSuffix
}

// AddsKey reports whether a deployment of the API server in the present phase only adds a new encryption key to the configuration of all
// Pods, so that the Pods do not write with the key yet. Pods without the key could not read objects that other Pods write with it. When
// the Deployment is rolled out, the operator must set NewKeyPopulated, and deploy the objects again. The result is false without a live
// Deployment, because there are no Pods then.
func AddsKey(v values.Values, live *appsv1.Deployment) bool {
	preparing := v.Phases[rotation.ETCDEncryptionKey] == operatorv1alpha1.RotationPreparing
	return preparing && live != nil && live.Annotations[NewKeyPopulated] != "true"
}

// SetMarks adds two annotations to the Deployment if the Pods of the Deployment encrypt with a new key, or if the live Deployment already
// has NewKeyPopulated: NewKeyPopulated, and AnnotationEncryptionKey with the value key. The argument key is the name of the Secret with
// the new key. In all other cases, SetMarks changes nothing.
func SetMarks(v values.Values, deployment, live *appsv1.Deployment, key string) {
	phase := v.Phases[rotation.ETCDEncryptionKey]
	writes := phase == operatorv1alpha1.RotationPreparing && !AddsKey(v, live) || phase == operatorv1alpha1.RotationPrepared && live == nil
	if writes || live != nil && live.Annotations[NewKeyPopulated] == "true" {
		metav1.SetMetaDataAnnotation(&deployment.ObjectMeta, NewKeyPopulated, "true")
		metav1.SetMetaDataAnnotation(&deployment.ObjectMeta, operatorv1alpha1.AnnotationEncryptionKey, key)
	}
}

// OutdatedMarks returns the keys of the annotations of the live Deployment that an earlier rotation of the encryption key has left. With
// these annotations, the next rotation would skip a step. Live is nil if there is no Deployment. Key is the name of the Secret with the
// current key.
//
// If Gardener's operator began the rotation, no annotation names the key. In phase Preparing, OutdatedMarks then also returns
// ResourcesLabeled and Snapshotted: the labels of the objects contain no digest, so the operator must label the objects once more.
func OutdatedMarks(v values.Values, live *appsv1.Deployment, key string) []string {
	if live == nil {
		return nil
	}
	of := live.Annotations[operatorv1alpha1.AnnotationEncryptionKey]
	otherKey := of != "" && of != key
	phase := v.Phases[rotation.ETCDEncryptionKey]
	preparing := phase == operatorv1alpha1.RotationPreparing
	rotates := preparing || phase == operatorv1alpha1.RotationPrepared
	relabels := otherKey || AddsKey(v, live) || preparing && of == ""
	var outdated []string
	for mark, is := range map[string]bool{
		NewKeyPopulated: !rotates || otherKey, operatorv1alpha1.AnnotationEncryptionKey: !rotates || otherKey,
		ResourcesLabeled: relabels, Snapshotted: relabels,
	} {
		if _, marked := live.Annotations[mark]; marked && is {
			outdated = append(outdated, mark)
		}
	}
	return outdated
}

// CheckNewKeyUsed returns an error that says why the operator must not drop the old encryption key yet, or nil. It does not rely on the
// phase in the status alone, because the phase may be wrong: the annotation NewKeyPopulated must be "true", and neither the annotation
// AnnotationEncryptionKey nor the encryption configuration of the live Deployment may say that Pods write with another key than the
// current one. Configured are the keys of the live encryption configuration, empty if they are not known.
func CheckNewKeyUsed(live *appsv1.Deployment, current *corev1.Secret, configured []secretconfig.UsableEncryptionKey) error {
	key, err := secretconfig.ParseEncryptionKey(current.Data)
	if err != nil {
		return fmt.Errorf("read encryption key in Secret %s: %w", current.Name, err)
	}
	if live.Annotations[NewKeyPopulated] != "true" {
		return fmt.Errorf("the annotation %s of Deployment %s/%s is not \"true\", so Pods may still write with the old key; make sure that the "+
			"first key in the encryption configuration of all Pods is the key in Secret %s, and then set the annotation",
			NewKeyPopulated, live.Namespace, live.Name, current.Name)
	}
	if of := live.Annotations[operatorv1alpha1.AnnotationEncryptionKey]; of != "" && of != current.Name {
		return fmt.Errorf("the annotation %s of Deployment %s/%s names the key in Secret %s instead of the key in Secret %s, with which all "+
			"Pods must write; make sure that they do, and then set the annotation to this Secret",
			operatorv1alpha1.AnnotationEncryptionKey, live.Namespace, live.Name, of, current.Name)
	}
	if len(configured) > 0 && configured[0] != key {
		return fmt.Errorf("the first key in the encryption configuration of Deployment %s/%s is not the key in Secret %s, so Pods write with "+
			"the old key", live.Namespace, live.Name, current.Name)
	}
	return nil
}

// OnlyCurrent reports whether the keys of a live encryption configuration are known, and are nothing but the current key.
func OnlyCurrent(current *corev1.Secret, configured []secretconfig.UsableEncryptionKey) bool {
	key, err := secretconfig.ParseEncryptionKey(current.Data)
	return err == nil && len(configured) == 1 && configured[0] == key
}

// EncryptionKey returns the request for the key with which the API server encrypts data in etcd. Both API servers use the provider in the
// settings of kube-apiserver.
func (s Server) EncryptionKey(v values.Values) secrets.Request {
	return secrets.Request{
		Config: secretconfig.EncryptionKey{
			Name: s.Name + keySuffix, Provider: encryptionProvider(v), SecretLength: encryptionKeyLength,
		},
		Persist: true, KeepOld: true, IgnoreOld: rotation.ForgetsOld(v.Phases[rotation.ETCDEncryptionKey]),
	}
}

// encryptionProvider returns the provider that the Garden asks for. It returns "" if the Garden names no provider or names aescbc, because
// the keys of earlier releases, which only had aescbc, name no provider.
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

// CheckProvider fails if the Garden asks for another provider than an existing key has. It is for a Garden whose status does not say how
// objects are encrypted: all its Pods would have to use a new key at once, and some Pods could not read the objects that other Pods write.
func (s Server) CheckProvider(v values.Values, existing *corev1.Secret) error {
	used := cmp.Or(secretconfig.EncryptionProvider(existing.Data[secretconfig.DataKeyEncryptionProvider]), secretconfig.AESCBC)
	if wanted := cmp.Or(encryptionProvider(v), secretconfig.AESCBC); wanted != used {
		return fmt.Errorf("%s.encryptionConfig.provider.type is %s, but the encryption key in Secret %s/%s is for %s, and the status of the "+
			"Garden does not say how objects are encrypted; set it to %s, and change it after a reconciliation",
			s.Path, wanted, s.Namespace, existing.Name, used, used)
	}
	return nil
}

// Encryption is the encryption configuration of an API server: its resources and keys.
type Encryption struct {
	// Config lists further resources that the Garden encrypts; it may be nil.
	Config *operatorv1alpha1.EncryptionConfig
	// Always are the resources that are encrypted in every Garden.
	Always []string
	// Former are resources whose objects have been encrypted. If the Garden no longer lists a resource of Former, the API server writes its
	// objects as plain text, and can still read its encrypted objects.
	Former []string
	// Plain are the resources that are still written as plain text: see PlainResources.
	Plain []string
	Keys  []secretconfig.UsableEncryptionKey
}

// Resources returns the resources that an API server encrypts: the resources that the Garden names, and the resources that every Garden
// encrypts.
func Resources(config *operatorv1alpha1.EncryptionConfig, always []string) []string {
	return slices.Concat(ptr.Deref(config, operatorv1alpha1.EncryptionConfig{}).Resources, always)
}

// PlainResources returns the resources whose objects the live Pods do not encrypt yet. If a new Pod encrypted an object of these
// resources, the live Pods could not read the object. So a first deployment must make all Pods able to read encrypted objects of these
// resources, with the resources in Encryption.Plain. When it is rolled out, the operator must deploy the objects again, with an empty
// Plain. Live is the Secret with the configuration of the live Deployment, nil if there is none.
func PlainResources(resources []string, live *corev1.Secret) ([]string, error) {
	if live == nil {
		return nil, nil
	}
	plain, err := secretconfig.Unencrypted(resources, live.Data[secretconfig.DataKeyEncryptionConfiguration])
	if err != nil {
		return nil, fmt.Errorf("read key %s of Secret %s/%s: %w; restore the Secret, or delete it together with its Deployment",
			secretconfig.DataKeyEncryptionConfiguration, live.Namespace, live.Name, err)
	}
	return plain, nil
}

// EncryptionSecret returns the name of the Secret with the configuration of a live Deployment, "" if there is none.
func EncryptionSecret(live *appsv1.Deployment) string {
	if live == nil {
		return ""
	}
	for _, each := range live.Spec.Template.Spec.Volumes {
		if each.Name == encryptionVolume && each.Secret != nil {
			return each.Secret.SecretName
		}
	}
	return ""
}

// YAML returns the configuration file.
func (e Encryption) YAML() ([]byte, error) {
	resources := slices.DeleteFunc(Resources(e.Config, e.Always), func(each string) bool { return slices.Contains(e.Plain, each) })
	decrypted := slices.DeleteFunc(slices.Concat(e.Former, e.Plain), func(each string) bool { return slices.Contains(resources, each) })
	slices.Sort(decrypted)
	decrypted = slices.Compact(decrypted)
	content, err := secretconfig.Encryption{Resources: resources, Decrypted: decrypted, Keys: e.Keys}.YAML()
	if err != nil {
		return nil, fmt.Errorf("render encryption configuration: %w", err)
	}
	return content, nil
}

// EncryptionPart configures the encryption of data in etcd. The garbage collector keeps the Secret with this configuration even if the
// Deployment is deleted, because the Secret may contain the last copy of a key.
func (s Server) EncryptionPart(e Encryption) (Part, error) {
	content, err := e.YAML()
	if err != nil {
		return Part{}, err
	}
	const file = secretconfig.DataKeyEncryptionConfiguration
	name := s.Name + configurationSuffix
	object := object.UniqueSecret(s.Namespace, name, map[string]string{RoleLabel: name}, map[string][]byte{file: content})
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, resourcesv1alpha1.KeepObject, "true")
	return Part{
		Volume: encryptionVolume, Folder: encryptionFolder, Private: true,
		Object: object,
		Args:   []string{"--encryption-provider-config=" + encryptionFolder + "/" + file},
	}, nil
}
