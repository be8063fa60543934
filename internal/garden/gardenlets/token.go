package gardenlets

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	seedmanagementv1alpha1 "github.com/espalier-dev/espalier/api/seedmanagement/v1alpha1"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

const (
	// tokenValidity is how long gardenlet may wait for its first connection.
	tokenValidity = 24 * time.Hour
	// tokenIDLength is the length of the identifier of a bootstrap token, tokenSecretLength the length of its secret.
	tokenIDLength     = 6
	tokenSecretLength = 16
)

// Keys of Secrets with bootstrap tokens.
const (
	keyTokenID     = "token-id"
	keyTokenSecret = "token-secret"
	keyExpiration  = "expiration"
)

// tokenID returns the identifier of the bootstrap token of a Gardenlet. The authorizer for Seeds in the virtual cluster calculates it, too.
func tokenID(g *seedmanagementv1alpha1.Gardenlet) string {
	sum := sha256.Sum256([]byte(g.Namespace + "--" + g.Name))
	return hex.EncodeToString(sum[:])[:tokenIDLength]
}

// tokenSecret returns the Secret of a bootstrap token for the virtual cluster. Its description is read by the admission for Seeds.
func tokenSecret(g *seedmanagementv1alpha1.Gardenlet, secret string, now time.Time) *corev1.Secret {
	id := tokenID(g)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"description": []byte(fmt.Sprintf(
				"A bootstrap token for the Gardenlet for %s.Gardenlet resource %s/%s.", kind.GroupVersion(), g.Namespace, g.Name)),
			keyTokenID: []byte(id), keyTokenSecret: []byte(secret), keyExpiration: []byte(now.Add(tokenValidity).UTC().Format(time.RFC3339)),
			"usage-bootstrap-authentication": []byte("true"), "usage-bootstrap-signing": []byte("true"),
		},
	}
}

// isUsable reports whether the token of a Secret is complete and not expired.
func isUsable(token *corev1.Secret, now time.Time) bool {
	expires, err := time.Parse(time.RFC3339, string(token.Data[keyExpiration]))
	return err == nil && now.Before(expires) && len(token.Data[keyTokenID]) == tokenIDLength &&
		len(token.Data[keyTokenSecret]) == tokenSecretLength
}

// bootstrapKubeconfig returns the kubeconfig with a bootstrap token.
func bootstrapKubeconfig(token *corev1.Secret, address string, ca []byte) (string, error) {
	data, err := secretconfig.Kubeconfig{
		Name: release, ContextName: release, Cluster: secretconfig.Cluster{Server: address, CAData: ca},
		User: secretconfig.User{Token: string(token.Data[keyTokenID]) + "." + string(token.Data[keyTokenSecret])},
	}.Generate(secretconfig.Source{})
	return string(data[secretconfig.DataKeyKubeconfig]), err
}
