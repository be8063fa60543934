package apiserver_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func TestEncryptedObjectsAreWrittenAgainWhenTheirFormChanges(t *testing.T) {
	type provider = operatorv1alpha1.EncryptionProviderType
	wants := func(p provider, resources ...string) operatorv1alpha1.KubeAPIServer {
		return operatorv1alpha1.KubeAPIServer{KubeAPIServerConfig: operatorv1alpha1.KubeAPIServerConfig{
			EncryptionConfig: &operatorv1alpha1.EncryptionConfig{
				Resources: resources, Provider: &operatorv1alpha1.EncryptionProvider{Type: ptr.To(p)},
			},
		}}
	}
	encrypted := func(p provider, resources ...string) *operatorv1alpha1.EncryptionAtRest {
		return &operatorv1alpha1.EncryptionAtRest{Resources: resources, Provider: &operatorv1alpha1.EncryptionProviderStatus{Type: p}}
	}
	shootStates := []string{"shootstates.core.gardener.cloud"}
	for sentence, tc := range map[string]struct {
		values values.Values
		want   apiserver.Rewrite
	}{
		"nothing changes": {values: values.Values{EncryptedProvider: "aescbc"}},
		"nothing changes in phase Prepared": {
			values: values.Values{EncryptedProvider: "aescbc", EncryptionPhase: operatorv1alpha1.RotationPrepared},
		},
		"it is not known how objects are encrypted": {want: apiserver.Rewrite{
			Label: true, Unlabel: true, Resources: []string{"secrets"}, Encrypted: encrypted("aescbc"),
		}},
		"a new key is being prepared": {
			values: values.Values{
				EncryptedProvider: "aescbc", EncryptionPhase: operatorv1alpha1.RotationPreparing,
				KubeAPIServer: wants("aescbc", "pods"), EncryptedResources: append([]string{"pods"}, shootStates...),
				GardenerAPIServer: operatorv1alpha1.GardenerAPIServer{EncryptionConfig: &operatorv1alpha1.EncryptionConfig{Resources: shootStates}},
			},
			want: apiserver.Rewrite{Label: true, Resources: []string{"pods", "secrets", "shootstates.core.gardener.cloud"}},
		},
		"the rotation of the key completes": {
			values: values.Values{EncryptedProvider: "aescbc", EncryptionPhase: operatorv1alpha1.RotationCompleting},
			want:   apiserver.Rewrite{Unlabel: true, Resources: []string{"secrets"}},
		},
		"other resources are to be encrypted": {
			values: values.Values{
				EncryptedProvider: "aescbc", KubeAPIServer: wants("aescbc", "pods", "deployments.apps"),
				EncryptedResources: append([]string{"pods", "configmaps"}, shootStates...),
			},
			want: apiserver.Rewrite{
				Label: true, Unlabel: true, Resources: []string{"configmaps", "deployments.apps", "shootstates.core.gardener.cloud"},
				Encrypted: encrypted("aescbc", "deployments.apps", "pods"),
			},
		},
		"resources of gardener-apiserver are to be encrypted": {
			values: values.Values{EncryptedProvider: "aescbc", GardenerAPIServer: operatorv1alpha1.GardenerAPIServer{
				EncryptionConfig: &operatorv1alpha1.EncryptionConfig{Resources: shootStates},
			}},
			want: apiserver.Rewrite{Label: true, Unlabel: true, Resources: shootStates, Encrypted: encrypted("aescbc", shootStates...)},
		},
		"other resources are to be encrypted in phase Prepared": {
			values: values.Values{
				EncryptedProvider: "aescbc", EncryptionPhase: operatorv1alpha1.RotationPrepared, KubeAPIServer: wants("aescbc", "pods"),
			},
			want: apiserver.Rewrite{Label: true, Unlabel: true, Resources: []string{"pods", "secrets"}, Encrypted: encrypted("aescbc", "pods")},
		},
		"it is not known how objects are encrypted, and a new key is being prepared": {
			values: values.Values{EncryptionPhase: operatorv1alpha1.RotationPreparing},
			want:   apiserver.Rewrite{Label: true, Resources: []string{"secrets"}},
		},
		"it is not known how objects are encrypted, and the rotation of the key completes": {
			values: values.Values{EncryptionPhase: operatorv1alpha1.RotationCompleting},
			want:   apiserver.Rewrite{Unlabel: true, Resources: []string{"secrets"}, Encrypted: encrypted("aescbc")},
		},
		"other resources are to be encrypted while a new key is being prepared": {
			values: values.Values{
				EncryptedProvider: "aescbc", EncryptionPhase: operatorv1alpha1.RotationPreparing, KubeAPIServer: wants("aescbc", "pods"),
			},
			want: apiserver.Rewrite{Label: true, Unlabel: true, Resources: []string{"pods", "secrets"}, Encrypted: encrypted("aescbc", "pods")},
		},
		"another provider is being prepared": {
			values: values.Values{
				EncryptedProvider: "aescbc", EncryptionPhase: operatorv1alpha1.RotationPreparing, KubeAPIServer: wants("secretbox"),
			},
			want: apiserver.Rewrite{Label: true, Resources: []string{"secrets"}},
		},
		"the change to another provider completes": {
			values: values.Values{
				EncryptedProvider: "aescbc", EncryptionPhase: operatorv1alpha1.RotationCompleting, KubeAPIServer: wants("secretbox"),
			},
			want: apiserver.Rewrite{Unlabel: true, Resources: []string{"secrets"}, Encrypted: encrypted("secretbox")},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(apiserver.PlanRewrite(tc.values, []string{"secrets"})).To(BeComparableTo(tc.want))
		})
	}
}
