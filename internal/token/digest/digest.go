// Package digest keeps of the contents of a token Secret what decisions need, and nothing that could be stolen: which
// keys there are, when the token expires, and a hash of the certificate authority. The cache of the token requestor holds
// digests, so that it need not ask for a Secret again, not even after a restart.
package digest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/token/kubeconfig"
)

// maxFault bounds what is kept of the message about a broken kubeconfig, in bytes.
const maxFault = 256

// Digest tells what a Secret holds.
type Digest struct {
	// Kubeconfig says that there is a key kubeconfig, which then holds the token.
	Kubeconfig bool `json:"kubeconfig,omitempty"`
	// Fault is what is wrong with the kubeconfig; empty: nothing.
	Fault string `json:"fault,omitempty"`
	// Token says that there is a token where it belongs: in the kubeconfig if there is one, else in key token.
	Token bool `json:"token,omitempty"`
	// Expiry is when that token expires, as it says itself; zero if it does not say.
	Expiry time.Time `json:"expiry,omitzero"`
	// CA is the hash of the certificate authority beside the token, see Hash; empty if there is none.
	CA string `json:"ca,omitempty"`
	// Immutable says that the contents of the Secret cannot be changed.
	Immutable bool `json:"immutable,omitempty"`
}

// Of returns the digest of a Secret with all its contents.
func Of(secret *corev1.Secret) Digest {
	d := Digest{Immutable: ptr.Deref(secret.Immutable, false)}
	content, found := secret.Data[resourcesv1alpha1.DataKeyKubeconfig]
	if !found {
		token, held := secret.Data[resourcesv1alpha1.DataKeyToken]
		d.Token, d.Expiry = held, Expiry(string(token))
		d.CA = Hash(secret.Data[resourcesv1alpha1.DataKeyCABundle])
		return d
	}
	d.Kubeconfig = true
	config, err := kubeconfig.Decode(content)
	if err != nil {
		d.Fault = err.Error()[:min(len(err.Error()), maxFault)]
		return d
	}
	d.Token, d.Expiry, d.CA = config.Token() != "", Expiry(config.Token()), Hash(config.CA())
	return d
}

// Hash identifies a certificate authority; empty for none.
func Hash(ca []byte) string {
	if len(ca) == 0 {
		return ""
	}
	sum := sha256.Sum256(ca)
	return hex.EncodeToString(sum[:])
}

// Strip is a transform for caches of Secrets: what remains are identity, labels, the annotations that the token
// requestor reads, and the digest. Others may hold anything, such as the manifest with all contents that kubectl leaves
// there.
func Strip(object any) (any, error) {
	secret, ok := object.(*corev1.Secret)
	if !ok || secret.StringData != nil {
		return object, nil
	}
	encoded, err := json.Marshal(Of(secret))
	if err != nil {
		return nil, fmt.Errorf("encode digest: %w", err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: secret.Namespace, Name: secret.Name, UID: secret.UID, ResourceVersion: secret.ResourceVersion,
			Labels: ours(secret.Labels, labels()), Annotations: ours(secret.Annotations, annotations()),
		},
		StringData: map[string]string{key: string(encoded)}, // API servers never serve this field, so it holds nobody else's data
	}, nil
}

// key is where a stripped Secret carries its digest.
const key = "digest"

// Read returns the digest of a Secret that Strip has made.
func Read(stripped *corev1.Secret) (Digest, error) {
	var d Digest
	if err := json.Unmarshal([]byte(stripped.StringData[key]), &d); err != nil {
		return Digest{}, fmt.Errorf("decode digest: %w", err)
	}
	return d, nil
}

func ours(have map[string]string, keys []string) map[string]string {
	var kept map[string]string
	for _, each := range keys {
		value, found := have[each]
		if !found {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[each] = value
	}
	return kept
}

func labels() []string {
	return []string{resourcesv1alpha1.ResourcePurpose, resourcesv1alpha1.ResourceClass}
}

func annotations() []string {
	return []string{
		resourcesv1alpha1.ServiceAccountName,
		resourcesv1alpha1.ServiceAccountNamespace,
		resourcesv1alpha1.ServiceAccountLabels,
		resourcesv1alpha1.ServiceAccountTokenExpirationDuration,
		resourcesv1alpha1.ServiceAccountInjectCABundle,
		resourcesv1alpha1.ServiceAccountTokenRenewTimestamp,
		resourcesv1alpha1.TokenRequestorTargetSecretName,
		resourcesv1alpha1.TokenRequestorTargetSecretNamespace,
		resourcesv1alpha1.TokenAudiences,
		resourcesv1alpha1.RenewToken,
	}
}
