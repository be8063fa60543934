package handlers

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
)

func TestTokenInvalidatorPlan(t *testing.T) {
	const (
		consider   = `{"token-invalidator.resources.gardener.cloud/consider":"true"}`
		invalidate = `[{"op":"add","path":"/data/token","value":"AAAA"}]`
		drop       = `[{"op":"remove","path":"/data/token"}]`
		notBase64  = "data.token: must be a string in base64"
	)
	for name, tc := range map[string]struct{ labels, data, want, wantErr string }{
		"labelled, no data":                    {labels: consider},
		"labelled, empty data":                 {labels: consider, data: `{}`, want: invalidate},
		"labelled, other data":                 {labels: consider, data: `{"ca.crt":"Y2VydA=="}`, want: invalidate},
		"labelled, a token":                    {labels: consider, data: `{"token":"c2VjcmV0"}`, want: invalidate},
		"labelled, an empty token":             {labels: consider, data: `{"token":""}`, want: invalidate},
		"labelled, a token that is null":       {labels: consider, data: `{"token":null}`, want: invalidate},
		"labelled, the invalid token":          {labels: consider, data: `{"token":"AAAA"}`},
		"labelled, the invalid token, escaped": {labels: consider, data: `{"token":"\u0041AAA"}`},
		"labelled, too few zero bytes":         {labels: consider, data: `{"token":"AAA="}`, want: invalidate},
		"labelled, too many zero bytes":        {labels: consider, data: `{"token":"AAAAAA=="}`, want: invalidate},
		"labelled with any value": {
			labels: `{"token-invalidator.resources.gardener.cloud/consider":"false"}`, data: `{}`, want: invalidate,
		},
		"labelled with no value": {
			labels: `{"token-invalidator.resources.gardener.cloud/consider":""}`, data: `{}`, want: invalidate,
		},
		"labelled, no base64":                      {labels: consider, data: `{"token":"secret!"}`, wantErr: notBase64},
		"labelled, no string":                      {labels: consider, data: `{"token":12345}`, wantErr: notBase64},
		"not labelled, no data":                    {},
		"not labelled, empty data":                 {data: `{}`},
		"not labelled, a token":                    {data: `{"token":"c2VjcmV0"}`},
		"not labelled, an empty token":             {data: `{"token":""}`},
		"not labelled, a token that is null":       {data: `{"token":null}`},
		"not labelled, the invalid token":          {data: `{"token":"AAAA"}`, want: drop},
		"not labelled, the invalid token, escaped": {data: `{"token":"\u0041AAA"}`, want: drop},
		"not labelled, too few zero bytes":         {data: `{"token":"AAA="}`},
		"not labelled, too many zero bytes":        {data: `{"token":"AAAAAA=="}`},
		"not labelled, no base64":                  {data: `{"token":"secret!"}`, wantErr: notBase64},
		"not labelled, no string":                  {data: `{"token":{"secret":"secret"}}`, wantErr: notBase64},
		"labelled for another purpose only": {
			labels: `{"resources.gardener.cloud/purpose":"token-invalidator"}`, data: `{"token":"c2VjcmV0"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			labels, data := tc.labels, tc.data
			if labels == "" {
				labels = "null"
			}
			if data == "" {
				data = "null"
			}
			found := tokenSecret{}
			g.Expect(review.Decode([]byte(`{"metadata":{"labels":`+labels+`},"data":`+data+`}`), &found)).To(Succeed())
			changes, err := planInvalidation(found)
			if tc.wantErr != "" {
				g.Expect(err).To(MatchError(tc.wantErr))
				g.Expect(changes).To(BeNil())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			document, err := changes.Encode()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(document)).To(Equal(tc.want))
		})
	}
}

func TestTokenInvalidatorKeepsTheRest(t *testing.T) {
	response, after := reviewtest.Handle(t, tokenInvalidator().
		Review(Settings{}), reviewtest.Request(t, review.Update, corev1.SchemeGroupVersion.WithResource("secrets"), `
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

func TestTokenInvalidatorRemovesAnInvalidToken(t *testing.T) {
	response, after := reviewtest.Handle(t, tokenInvalidator().Review(Settings{}),
		reviewtest.Request(t, review.Update, corev1.SchemeGroupVersion.WithResource("secrets"),
			`{apiVersion: v1, kind: Secret, metadata: {name: robot-token}, data: {token: AAAA, ca.crt: Y2VydA==}}`))
	NewWithT(t).Expect(response.Allowed).To(BeTrue())
	reviewtest.Same(t, after, `{apiVersion: v1, kind: Secret, metadata: {name: robot-token}, data: {ca.crt: Y2VydA==}}`)
}

// TestTokenInvalidatorErrorsContainNothingOfTheSecret sends Secrets that contain the word hidden in a field that cannot be decoded.
func TestTokenInvalidatorErrorsContainNothingOfTheSecret(t *testing.T) {
	for name, tc := range map[string]struct{ object, want string }{
		"a token that is no base64": {object: `{"data":{"token":"hidden!"}}`, want: "data.token: must be a string in base64"},
		"a token that is an object": {object: `{"data":{"token":{"hidden":"hidden"}}}`, want: "data.token: must be a string in base64"},
		"data that is a string":     {object: `{"data":"hidden"}`, want: `object: wrong type within "/data"`},
		"labels that are a string":  {object: `{"metadata":{"labels":"hidden"}}`, want: `object: wrong type within "/metadata/labels"`},
		"a label that is a number": {
			object: `{"metadata":{"labels":{"token-invalidator.resources.gardener.cloud/consider":12345}}}`,
			want:   `object: wrong type within "/metadata/labels/token-invalidator.resources.gardener.cloud~1consider"`,
		},
		"a Secret that is a string":     {object: `"hidden"`, want: `object: wrong type within ""`},
		"what ends too early":           {object: `{"data":{"token":"hidden`, want: "object: no JSON after byte 24"},
		"what is no JSON after a while": {object: `{"data":{"token":"aGlkZGVu"},hidden}`, want: "object: no JSON after byte 29"},
		"no Secret at all":              {object: ``, want: "there is no content to decode"},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := reviewtest.Handle(t, tokenInvalidator().
				Review(Settings{}), &review.Request{
				Operation: review.Create, Kind: corev1.SchemeGroupVersion.WithKind("Secret"), Object: []byte(tc.object),
			})
			NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Code: 400, Message: tc.want}))
		})
	}
}

func TestTokenInvalidatorRefusesAnotherKind(t *testing.T) {
	response, _ := reviewtest.Handle(t, tokenInvalidator().Review(Settings{}),
		reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("secrets"),
			`{apiVersion: v1, kind: ConfigMap, data: {token: AAAA}}`))
	NewWithT(t).Expect(response).
		To(BeComparableTo(review.Response{Code: 400, Message: `request.kind: expected "v1 Secret", got "v1 ConfigMap"`}))
}

func TestTokenInvalidatorAllowsDeletion(t *testing.T) {
	response, _ := reviewtest.Handle(t, tokenInvalidator().Review(Settings{}),
		reviewtest.Request(t, review.Delete, corev1.SchemeGroupVersion.WithResource("secrets"),
			`{apiVersion: v1, kind: Secret, data: {token: AAAA}}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
}

func FuzzTokenInvalidator(f *testing.F) {
	for _, seed := range objecttest.Seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		objecttest.Case[corev1.Secret]{
			Handler: tokenInvalidator().Review(Settings{}), Kind: corev1.SchemeGroupVersion.WithKind("Secret"), Object: randomSecret(),
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
		}.CheckRules(t, bytes)
	})
}

// BenchmarkTokenInvalidator judges a Secret with a token and a certificate of usual sizes.
func BenchmarkTokenInvalidator(b *testing.B) {
	encoded, err := json.Marshal(corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "robot-token", Namespace: "shop", Labels: map[string]string{"token-invalidator.resources.gardener.cloud/consider": "true"},
		},
		Data: map[string][]byte{
			"token": []byte(strings.Repeat("t", 900)), "ca.crt": []byte(strings.Repeat("c", 1200)), "namespace": []byte("shop"),
		},
		Type: corev1.SecretTypeServiceAccountToken,
	})
	NewWithT(b).Expect(err).NotTo(HaveOccurred())
	benchmark(b, tokenInvalidator().
		Review(Settings{}), &review.Request{
		Operation: review.Update, Kind: corev1.SchemeGroupVersion.WithKind("Secret"), Namespace: "shop", Object: encoded,
	})
}
