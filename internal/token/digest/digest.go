// Package digest reduces the contents of a token Secret to the facts that decisions need: which keys exist, when the token expires, and a
// hash of the certificate authority. A digest contains no credential. The cache of the token requestor stores digests, so that the
// requestor can decide whether a Secret needs a new token without a request for each Secret, even after a restart.
package digest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/token/kubeconfig"
)

// maxFault is the maximum length of the message about an invalid kubeconfig, in bytes.
const maxFault = 256

// Digest describes the contents of a Secret.
type Digest struct {
	// Kubeconfig is true if the Secret has the key kubeconfig; then the kubeconfig contains the token.
	Kubeconfig bool `json:"kubeconfig,omitempty"`
	// Fault describes the mistake in the kubeconfig; empty if it is valid.
	Fault string `json:"fault,omitempty"`
	// Token is true if there is a token in the right place: in the kubeconfig if there is one, else in the key token.
	Token bool `json:"token,omitempty"`
	// Expiry is the expiry time that the token itself states; zero if it states none.
	Expiry time.Time `json:"expiry,omitzero"`
	// CA is the hash of the certificate authority beside the token, see Hash; empty if there is none.
	CA string `json:"ca,omitempty"`
	// Immutable is true if the contents of the Secret cannot be changed.
	Immutable bool `json:"immutable,omitempty"`
}

// Of returns the digest of a Secret with complete contents.
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

// Hash identifies a certificate authority; it is empty if there is none.
func Hash(ca []byte) string {
	if len(ca) == 0 {
		return ""
	}
	sum := sha256.Sum256(ca)
	return hex.EncodeToString(sum[:])
}

// Strip is a transform for caches of Secrets. It keeps the namespace, name, UID and resource version of the Secret, the labels and
// annotations that the token requestor reads, and the digest. Other annotations may contain any text: for example, the annotation of
// kubectl contains the manifest with all contents.
func Strip(object any) (any, error) {
	secret, ok := object.(*corev1.Secret)
	if !ok || secret.StringData != nil {
		return object, nil
	}
	encoded, err := json.Marshal(Of(secret))
	if err != nil {
		return nil, fmt.Errorf("encode digest: %w", err)
	}
	stripped := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: secret.Namespace, Name: secret.Name, UID: secret.UID, ResourceVersion: secret.ResourceVersion,
		},
		StringData: map[string]string{key: string(encoded)}, // API servers never return this field, so it is free
	}
	for _, each := range labels() {
		if value, found := secret.Labels[each]; found {
			metav1.SetMetaDataLabel(&stripped.ObjectMeta, each, value)
		}
	}
	for _, each := range annotations() {
		if value, found := secret.Annotations[each]; found {
			metav1.SetMetaDataAnnotation(&stripped.ObjectMeta, each, value)
		}
	}
	return stripped, nil
}

// key is the key in StringData under which a stripped Secret stores its digest.
const key = "digest"

// Read returns the digest of a Secret that Strip has returned.
func Read(stripped *corev1.Secret) (Digest, error) {
	var d Digest
	if err := json.Unmarshal([]byte(stripped.StringData[key]), &d); err != nil {
		return Digest{}, fmt.Errorf("decode digest: %w", err)
	}
	return d, nil
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

// Expiry returns the expiry time in a token. It returns zero if the token is not a JSON web token, or contains no possible expiry time. It
// does not check the signature: only the API server that issued the token can do so.
func Expiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expires float64 `json:"exp"` // seconds, possibly with a fraction
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.Expires <= 0 || claims.Expires > math.MaxInt32*100 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expires), 0).UTC()
}
