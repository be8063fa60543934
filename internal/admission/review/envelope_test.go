package review

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// usual is a body as API servers write it.
const usual = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1-2","kind":{"group":"apps","version":"v1","kind":"Deployment"},` +
	`"resource":{"group":"apps","version":"v1","resource":"deployments"},"subResource":"scale","requestKind":{"group":"apps","version":"v1","kind":"Deployment"},` +
	`"name":"web","namespace":"shop","operation":"UPDATE","userInfo":{"username":"jane","uid":"7","groups":["a","b"],"extra":{"k":["v"]}},` +
	`"object":{"a":{"b":[1,"}]"]}},"oldObject":null,"dryRun":false,"options":{"kind":"UpdateOptions"}}}` + "\n"

func TestAnUsualReviewIsReadWithoutADecoder(t *testing.T) {
	g := NewWithT(t)
	found, ok := readEnvelope([]byte(usual), nil)
	g.Expect(ok).To(BeTrue())
	g.Expect(found.request.outline).To(Equal(outline{{0, 20}, {5, 19}, {10, 18}}))
	found.request.outline = nil
	g.Expect(found).To(Equal(review{
		apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview",
		request: Request{
			UID: "1-2", Kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
			Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, SubResource: "scale",
			Name: "web", Namespace: "shop", Operation: Update, User: User{Name: "jane", UID: "7", Groups: []string{"a", "b"}, Extra: map[string][]string{"k": {"v"}}},
			Object: []byte(`{"a":{"b":[1,"}]"]}}`), Options: []byte(`{"kind":"UpdateOptions"}`),
		},
	}))
}

func TestWhatIsUnusualIsLeftToTheDecoder(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":                    ``,
		"no object":                  `[]`,
		"cut":                        usual[:len(usual)/2],
		"no request":                 `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`,
		"two requests":               `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1"},"request":{"uid":"2"}}`,
		"no version":                 `{"kind":"AdmissionReview","request":{}}`,
		"another version":            `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v2","request":{}}`,
		"another kind":               `{"kind":"Pod","apiVersion":"admission.k8s.io/v1","request":{}}`,
		"extra that is set twice":    `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"userInfo":{"extra":{"a":["b"],"a":["c"]}}}}`,
		"more after the review":      usual + "{}",
		"an escaped name":            `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"name":"a\u0062"}}`,
		"an escaped member":          `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"n\u0061me":"a"}}`,
		"a name that is no string":   `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"name":7}}`,
		"a name that is set twice":   `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"name":"a","name":"b"}}`,
		"bytes that are no UTF-8":    `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"name":"` + "\xff" + `"}}`,
		"an object that is a string": `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"object":"a"}}`,
		"options that are a list":    `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"options":[]}}`,
		"options that are set twice": `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"options":{},"options":{}}}`,
		"a group that is no string":  `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"userInfo":{"groups":["a",1]}}}`,
		"more about a user twice":    `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"userInfo":{"extra":{"a":["b"]},"extra":{}}}}`,
		"a comma too many":           `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1",}}`,
		"a dry run that is a number": `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"dryRun":1}}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, ok := readEnvelope([]byte(body), nil)
			NewWithT(t).Expect(ok).To(BeFalse())
		})
	}
}

// FuzzEnvelope holds that both ways to read a review come to the same result.
func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(usual))
	f.Add([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{ "userInfo" : { "groups" : [ ] }, "object":{} } }`))
	f.Add([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"options": {"propagationPolicy":"Orphan"} ,"object":null}}`))
	f.Add([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"options":null}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		found, ok := readEnvelope(body, nil)
		if !ok {
			return
		}
		wanted, err := decodeUnusual(body)
		if err != nil {
			return // in what is skipped: the first way does not look at it
		}
		for _, each := range found.request.outline {
			NewWithT(t).Expect(int(each.end)).To(Equal(nested(found.request.Object, int(each.begin))), "%s", body)
		}
		found.request.outline = nil
		NewWithT(t).Expect(found).To(Equal(wanted), "%s", body)
	})
}
