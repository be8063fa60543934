package apiserver_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// phases returns the phases of a Garden whose encryption key is rotated.
func phases(of operatorv1alpha1.RotationPhase) rotation.Phases {
	return rotation.Phases{rotation.ETCDEncryptionKey: of}
}

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
			values: values.Values{EncryptedProvider: "aescbc", Phases: phases(operatorv1alpha1.RotationPrepared)},
		},
		"it is not known how objects are encrypted": {want: apiserver.Rewrite{
			Label: true, Unlabel: true, Resources: []string{"secrets"}, Encrypted: encrypted("aescbc"),
		}},
		"a new key is being prepared": {
			values: values.Values{
				EncryptedProvider: "aescbc", Phases: phases(operatorv1alpha1.RotationPreparing),
				KubeAPIServer: wants("aescbc", "pods"), EncryptedResources: append([]string{"pods"}, shootStates...),
				GardenerAPIServer: operatorv1alpha1.GardenerAPIServer{EncryptionConfig: &operatorv1alpha1.EncryptionConfig{Resources: shootStates}},
			},
			want: apiserver.Rewrite{Label: true, Resources: []string{"pods", "secrets", "shootstates.core.gardener.cloud"}},
		},
		"the rotation of the key completes": {
			values: values.Values{EncryptedProvider: "aescbc", Phases: phases(operatorv1alpha1.RotationCompleting)},
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
				EncryptedProvider: "aescbc", Phases: phases(operatorv1alpha1.RotationPrepared), KubeAPIServer: wants("aescbc", "pods"),
			},
			want: apiserver.Rewrite{Label: true, Unlabel: true, Resources: []string{"pods", "secrets"}, Encrypted: encrypted("aescbc", "pods")},
		},
		"it is not known how objects are encrypted, and a new key is being prepared": {
			values: values.Values{Phases: phases(operatorv1alpha1.RotationPreparing)},
			want:   apiserver.Rewrite{Label: true, Resources: []string{"secrets"}},
		},
		"it is not known how objects are encrypted, and the rotation of the key completes": {
			values: values.Values{Phases: phases(operatorv1alpha1.RotationCompleting)},
			want:   apiserver.Rewrite{Unlabel: true, Resources: []string{"secrets"}, Encrypted: encrypted("aescbc")},
		},
		"other resources are to be encrypted while a new key is being prepared": {
			values: values.Values{
				EncryptedProvider: "aescbc", Phases: phases(operatorv1alpha1.RotationPreparing), KubeAPIServer: wants("aescbc", "pods"),
			},
			want: apiserver.Rewrite{Label: true, Unlabel: true, Resources: []string{"pods", "secrets"}, Encrypted: encrypted("aescbc", "pods")},
		},
		"another provider is being prepared": {
			values: values.Values{
				EncryptedProvider: "aescbc", Phases: phases(operatorv1alpha1.RotationPreparing), KubeAPIServer: wants("secretbox"),
			},
			want: apiserver.Rewrite{Label: true, Resources: []string{"secrets"}},
		},
		"the change to another provider completes": {
			values: values.Values{
				EncryptedProvider: "aescbc", Phases: phases(operatorv1alpha1.RotationCompleting), KubeAPIServer: wants("secretbox"),
			},
			want: apiserver.Rewrite{Unlabel: true, Resources: []string{"secrets"}, Encrypted: encrypted("secretbox")},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(apiserver.PlanRewrite(tc.values, []string{"secrets"})).To(BeComparableTo(tc.want))
		})
	}
}

// Users of the virtual cluster see the value at their own objects only when these have been written again.
func TestLabelOfARotationCannotBeSetInAdvance(t *testing.T) {
	g := NewWithT(t)
	const name = "kube-apiserver-etcd-encryption-key-12345678-12345"
	key := func(name, secret string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"secret": []byte(secret)}}
	}
	label := apiserver.KeyLabel(key(name, "0123456789abcdef0123456789abcdef"))
	g.Expect(label).To(MatchRegexp(`^` + name + `\.[0-9a-f]{12}$`))
	g.Expect(apiserver.KeyLabel(key(name, "0123456789abcdef0123456789abcdef"))).To(Equal(label))
	g.Expect(apiserver.KeyLabel(key(name, "other"))).NotTo(Equal(label))
	long := apiserver.KeyLabel(key(strings.Repeat("a", 60), "0123456789abcdef0123456789abcdef"))
	g.Expect(validation.IsValidLabelValue(long)).To(BeEmpty())
}
