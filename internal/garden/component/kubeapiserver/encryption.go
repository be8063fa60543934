package kubeapiserver

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/values"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

const (
	encryptionName   = "kube-apiserver-etcd-encryption-configuration"
	encryptionFolder = "/etc/kubernetes/etcd-encryption-secret"
)

// NewKeyPopulated is an annotation of the Deployment with the value "true". The operator sets it when all Pods can read with the new
// encryption key, so that from then on they write with it. The operator removes it in phase Completing. Missing: in phase Preparing, Pods
// write with the old key.
const NewKeyPopulated = "credentials.gardener.cloud/new-encryption-key-populated"

// alwaysEncrypted are the resources that are encrypted in every Garden.
var alwaysEncrypted = []string{"secrets"}

// gardenerGroups is the suffix of the groups that gardener-apiserver encrypts.
const gardenerGroups = ".gardener.cloud"

// EncryptionKeys returns the keys in the order in which kube-apiserver tries them; it writes with the first one. Old is the Secret with the
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
// write with it. When it is rolled out, NewKeyPopulated must be set, and the objects deployed again.
func AddsKey(v values.Values, live *appsv1.Deployment) bool {
	return v.EncryptionPhase == operatorv1alpha1.RotationPreparing && (live == nil || live.Annotations[NewKeyPopulated] != "true")
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

// encryptionPart encrypts the resources of the Garden. Resources that it no longer has are written as plain text and can still be read.
func encryptionPart(v values.Values, keys []secretconfig.UsableEncryptionKey) (part, error) {
	var resources []string
	if config := v.KubeAPIServer.EncryptionConfig; config != nil {
		resources = slices.Clone(config.Resources)
	}
	resources = append(resources, alwaysEncrypted...)
	var decrypted []string
	for _, each := range v.EncryptedResources {
		if !slices.Contains(resources, each) && !strings.HasSuffix(each, gardenerGroups) {
			decrypted = append(decrypted, each)
		}
	}
	content, err := secretconfig.Encryption{Resources: resources, Decrypted: decrypted, Keys: keys}.YAML()
	if err != nil {
		return part{}, fmt.Errorf("render encryption configuration: %w", err)
	}
	const file = secretconfig.DataKeyEncryptionConfiguration
	return part{
		volume: "etcd-encryption-secret", folder: encryptionFolder, private: true,
		object: secret(v, encryptionName, map[string]string{"role": encryptionName}, map[string][]byte{file: content}),
		args:   []string{"--encryption-provider-config=" + encryptionFolder + "/" + file},
	}, nil
}
