package apiserver

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

const (
	// KeyName is a label on encrypted objects of the virtual cluster. Its value is the KeyLabel of the encryption key that kube-apiserver had
	// when the operator wrote the object again. The operator removes the label when the rotation of the key completes. If there is no
	// rotation, and only the encrypted resources or the provider change, the operator removes the label in the same rewrite.
	KeyName = "credentials.gardener.cloud/key-name"
	// ResourcesLabeled is an annotation of the Deployment of kube-apiserver with the value "true": all objects of a Rewrite have the label
	// KeyName. Missing: the operator labels them.
	ResourcesLabeled = "credentials.gardener.cloud/resources-labeled"
	// Snapshotted is an annotation of the Deployment of kube-apiserver with the value "true": the etcd took a snapshot after all objects were
	// labeled. Missing: the operator requests it.
	Snapshotted = "credentials.gardener.cloud/etcd-snapshotted"
)

// KeyLabel returns the value of the label KeyName for the Secret with an encryption key. The value consists of the first 50 characters of
// the name of the Secret, and of a digest that depends on the key. It has at most 63 characters. Users of the virtual cluster may know the
// name of the Secret before a rotation writes their objects again. Without the digest, they could set the label in advance, and the
// rewrite would leave out their objects.
func KeyLabel(key *corev1.Secret) string {
	const longestName, digits = 50, 12
	digest := hmac.New(sha256.New, key.Data[secretconfig.DataKeyEncryptionSecret])
	digest.Write([]byte(key.Name))
	return key.Name[:min(len(key.Name), longestName)] + "." + hex.EncodeToString(digest.Sum(nil))[:digits]
}

// Rewrite describes how a reconciliation makes an API server write encrypted objects again, so that etcd has them in the form that the
// Garden requests.
type Rewrite struct {
	// Label is true if the rewrite adds the label KeyName to objects, and Unlabel if it removes the label. Both write an object again. If both
	// are true, the rewrite first adds the label and then removes it.
	Label, Unlabel bool
	// Resources are the resources of the objects, for example secrets or deployments.apps.
	Resources []string
	// Encrypted lists the resources that are encrypted after the rewrite, without the resources that are always encrypted. Nil: the status of
	// the Garden keeps the recorded list and provider, because they do not change, or because a rotation of the key must complete first.
	Encrypted *operatorv1alpha1.EncryptionAtRest
}

// PlanRewrite returns the Rewrite of a reconciliation of both API servers. The argument always contains the resources that both API
// servers encrypt in every Garden. A rewrite is necessary while a rotation of the key is in phase Preparing or Completing. It is also
// necessary if the resources or the provider differ from the status of the Garden, or if the status does not record them.
func PlanRewrite(v values.Values, always []string) Rewrite {
	before, after := sets.New(v.EncryptedResources...), sets.New[string]()
	for _, config := range []*operatorv1alpha1.EncryptionConfig{v.KubeAPIServer.EncryptionConfig, v.GardenerAPIServer.EncryptionConfig} {
		if config != nil {
			after.Insert(config.Resources...)
		}
	}
	provider := operatorv1alpha1.EncryptionProviderType(cmp.Or(encryptionProvider(v), secretconfig.AESCBC))
	otherResources, otherProvider := !before.Equal(after), provider != v.EncryptedProvider
	phase := v.Phases[rotation.ETCDEncryptionKey]
	preparing := phase == operatorv1alpha1.RotationPreparing
	prepared := phase == operatorv1alpha1.RotationPrepared
	completing := phase == operatorv1alpha1.RotationCompleting
	r := Rewrite{
		Label:   preparing || otherResources || otherProvider && !completing,
		Unlabel: completing || otherResources || otherProvider && !preparing && !prepared,
	}
	if !r.Label && !r.Unlabel {
		return Rewrite{}
	}
	rewritten := before.Union(after).Insert(always...)
	if otherResources && !otherProvider && !preparing && !prepared && !completing {
		rewritten = before.SymmetricDifference(after)
	}
	r.Resources = slices.Sorted(maps.Keys(rewritten))
	if r.Unlabel && (otherResources || otherProvider) {
		r.Encrypted = &operatorv1alpha1.EncryptionAtRest{
			Resources: slices.Sorted(maps.Keys(after)), Provider: &operatorv1alpha1.EncryptionProviderStatus{Type: provider},
		}
	}
	return r
}
