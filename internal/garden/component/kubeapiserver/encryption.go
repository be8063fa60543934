package kubeapiserver

import (
	appsv1 "k8s.io/api/apps/v1"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/values"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// OutdatedMarks returns the annotations of the live Deployment, nil if there is none, that are about an earlier rotation of the encryption
// key: with them, the next rotation would skip a step.
func OutdatedMarks(v values.Values, live *appsv1.Deployment) []string {
	var outdated []string
	if live == nil {
		return outdated
	}
	rotates := v.EncryptionPhase == operatorv1alpha1.RotationPreparing || v.EncryptionPhase == operatorv1alpha1.RotationPrepared
	if _, marked := live.Annotations[apiserver.NewKeyPopulated]; marked && !rotates {
		outdated = append(outdated, apiserver.NewKeyPopulated)
	}
	for _, each := range []string{apiserver.ResourcesLabeled, apiserver.Snapshotted} {
		if _, marked := live.Annotations[each]; marked && apiserver.AddsKey(v, live) {
			outdated = append(outdated, each)
		}
	}
	return outdated
}

// alwaysEncrypted are the resources that are encrypted in every Garden.
var alwaysEncrypted = []string{"secrets"}

// Rewrite returns how encrypted objects are written again.
func Rewrite(v values.Values) apiserver.Rewrite { return apiserver.PlanRewrite(v, alwaysEncrypted) }

// encryptionPart encrypts the resources of the Garden.
func encryptionPart(v values.Values, keys []secretconfig.UsableEncryptionKey) (apiserver.Part, error) {
	return server(v).EncryptionPart(apiserver.Encryption{
		Config: v.KubeAPIServer.EncryptionConfig, Always: alwaysEncrypted, Former: apiserver.OfKubernetes(v.EncryptedResources), Keys: keys,
	})
}
