package kubeapiserver

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/values"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// CheckProvider fails if the provider of the existing encryption key is not the one that the Garden asks for: see apiserver.CheckProvider.
func CheckProvider(v values.Values, existing *corev1.Secret) error {
	return server(v).CheckProvider(v, existing)
}

// AlwaysEncrypted returns the resources that are encrypted in every Garden.
func AlwaysEncrypted() []string { return []string{"secrets"} }

// encryptionPart encrypts the resources of the Garden.
func encryptionPart(v values.Values, keys []secretconfig.UsableEncryptionKey) (apiserver.Part, error) {
	return server(v).EncryptionPart(apiserver.Encryption{
		Config: v.KubeAPIServer.EncryptionConfig, Always: AlwaysEncrypted(), Former: apiserver.OfKubernetes(v.EncryptedResources), Keys: keys,
	})
}
