package tokeninvalidator_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/webhook/objecttest"
	"github.com/espalier-dev/espalier/internal/webhook/tokeninvalidator"
)

func TestHandleKeepsTheRest(t *testing.T) {
	response, after := reviewtest.Handle(t, tokeninvalidator.Handler{}, reviewtest.Request(t, review.Update, corev1.SchemeGroupVersion.WithResource("secrets"), `
apiVersion: v1
kind: Secret
metadata: {name: robot-token, namespace: shop, labels: {token-invalidator.resources.gardener.cloud/consider: "true"}, unknown: kept}
data: {token: c2VjcmV0, ca.crt: Y2VydA==}
type: kubernetes.io/service-account-token
`))
	NewWithT(t).Expect(response.Allowed).To(BeTrue())
	reviewtest.Same(t, after, `
apiVersion: v1
kind: Secret
metadata: {name: robot-token, namespace: shop, labels: {token-invalidator.resources.gardener.cloud/consider: "true"}, unknown: kept}
data: {token: AAAA, ca.crt: Y2VydA==}
type: kubernetes.io/service-account-token
`)
}

func TestHandleDropsAnInvalidToken(t *testing.T) {
	response, after := reviewtest.Handle(t, tokeninvalidator.Handler{}, reviewtest.Request(t, review.Update, corev1.SchemeGroupVersion.WithResource("secrets"), `{apiVersion: v1, kind: Secret, metadata: {name: robot-token}, data: {token: AAAA, ca.crt: Y2VydA==}}`))
	NewWithT(t).Expect(response.Allowed).To(BeTrue())
	reviewtest.Same(t, after, `{apiVersion: v1, kind: Secret, metadata: {name: robot-token}, data: {ca.crt: Y2VydA==}}`)
}

// TestHandleNeverTellsWhatASecretHolds sends Secrets that hold the word hidden where it cannot be read.
func TestHandleNeverTellsWhatASecretHolds(t *testing.T) {
	for name, tc := range map[string]struct{ object, want string }{
		"a token that is no base64":     {object: `{"data":{"token":"hidden!"}}`, want: "data.token: must be a string in base64"},
		"a token that is an object":     {object: `{"data":{"token":{"hidden":"hidden"}}}`, want: "data.token: must be a string in base64"},
		"data that is a string":         {object: `{"data":"hidden"}`, want: `object: wrong type within "/data"`},
		"labels that are a string":      {object: `{"metadata":{"labels":"hidden"}}`, want: `object: wrong type within "/metadata/labels"`},
		"a label that is a number":      {object: `{"metadata":{"labels":{"token-invalidator.resources.gardener.cloud/consider":12345}}}`, want: `object: wrong type within "/metadata/labels/token-invalidator.resources.gardener.cloud~1consider"`},
		"a Secret that is a string":     {object: `"hidden"`, want: `object: wrong type within ""`},
		"what ends too early":           {object: `{"data":{"token":"hidden`, want: "object: no JSON after byte 24"},
		"what is no JSON after a while": {object: `{"data":{"token":"aGlkZGVu"},hidden}`, want: "object: no JSON after byte 29"},
		"no Secret at all":              {object: ``, want: "there is no content to decode"},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := reviewtest.Handle(t, tokeninvalidator.Handler{}, &review.Request{Operation: review.Create, Kind: corev1.SchemeGroupVersion.WithKind("Secret"), Object: []byte(tc.object)})
			NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Code: 400, Message: tc.want}))
		})
	}
}

func TestHandleRefusesAnotherKind(t *testing.T) {
	response, _ := reviewtest.Handle(t, tokeninvalidator.Handler{}, reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("secrets"), `{apiVersion: v1, kind: ConfigMap, data: {token: AAAA}}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Code: 400, Message: `request.kind: expected "v1 Secret", got "v1 ConfigMap"`}))
}

func TestHandleAllowsDeletion(t *testing.T) {
	response, _ := reviewtest.Handle(t, tokeninvalidator.Handler{}, reviewtest.Request(t, review.Delete, corev1.SchemeGroupVersion.WithResource("secrets"), `{apiVersion: v1, kind: Secret, data: {token: AAAA}}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
}

func FuzzHandle(f *testing.F) {
	for _, seed := range objecttest.Seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		objecttest.Case[corev1.Secret]{
			Handler: tokeninvalidator.Handler{}, Kind: corev1.SchemeGroupVersion.WithKind("Secret"), Object: objecttest.Secret(),
			Touched: []string{"/data/token"},
			Want: func(secret *corev1.Secret) bool {
				invalid := []byte{0, 0, 0}
				_, consider := secret.Labels["token-invalidator.resources.gardener.cloud/consider"]
				switch {
				case secret.Data == nil:
				case consider:
					secret.Data["token"] = invalid
				case slices.Equal(secret.Data["token"], invalid):
					delete(secret.Data, "token")
				}
				return true
			},
		}.Hold(t, bytes)
	})
}

// BenchmarkHandle judges a Secret with a token and a certificate of usual sizes.
func BenchmarkHandle(b *testing.B) {
	encoded, err := json.Marshal(corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: "robot-token", Namespace: "shop", Labels: map[string]string{"token-invalidator.resources.gardener.cloud/consider": "true"}},
		Data:       map[string][]byte{"token": []byte(strings.Repeat("t", 900)), "ca.crt": []byte(strings.Repeat("c", 1200)), "namespace": []byte("shop")},
		Type:       corev1.SecretTypeServiceAccountToken,
	})
	NewWithT(b).Expect(err).NotTo(HaveOccurred())
	objecttest.Benchmark(b, tokeninvalidator.Handler{}, &review.Request{Operation: review.Update, Kind: corev1.SchemeGroupVersion.WithKind("Secret"), Namespace: "shop", Object: encoded})
}
