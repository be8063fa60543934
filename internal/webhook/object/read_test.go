package object_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

func TestRead(t *testing.T) {
	pods := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	for name, tc := range map[string]struct {
		request review.Request
		judged  bool
		want    review.Response
		read    string
	}{
		"a Pod is read": {
			request: review.Request{Operation: "CREATE", Kind: pods, Object: []byte(`{"is":"read","other":1}`)}, read: "read",
		},
		"what does not tell its kind is read": {
			request: review.Request{Operation: "UPDATE", Object: []byte(`{"is":"read"}`)}, read: "read",
		},
		"null is read as absent": {request: review.Request{Operation: "CREATE", Kind: pods, Object: []byte(`{"is":null}`)}},
		"deleting is allowed whatever is deleted": {
			request: review.Request{Operation: "DELETE", Kind: schema.GroupVersionKind{Kind: "Other"}, OldObject: []byte(`1`)}, judged: true,
			want: review.Response{Allowed: true, Code: 200},
		},
		"no object": {
			request: review.Request{Operation: "CREATE", Kind: pods}, judged: true,
			want: review.Response{Code: 400, Message: "there is no content to decode"},
		},
		"another kind": {
			request: review.Request{
				Operation: "CREATE", Kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, Object: []byte(`{}`),
			},
			judged: true, want: review.Response{Code: 400, Message: `request.kind: expected "v1 Pod", got "apps/v1 Deployment"`},
		},
		"another version": {
			request: review.Request{Operation: "CREATE", Kind: schema.GroupVersionKind{Version: "v2", Kind: "Pod"}, Object: []byte(`{}`)},
			judged:  true, want: review.Response{Code: 400, Message: `request.kind: expected "v1 Pod", got "v2 Pod"`},
		},
		"an object that is none": {
			request: review.Request{Operation: "CREATE", Kind: pods, Object: []byte(`[]`)}, judged: true,
			want: review.Response{Code: 400, Message: "object: must not be a list"},
		},
		"a wrong type is reported with its field": {
			request: review.Request{Operation: "CREATE", Kind: pods, Object: []byte(`{"is":1}`)}, judged: true,
			want: review.Response{Code: 400, Message: "is: must not be a number"},
		},
		"other operations are read as creation is": {
			request: review.Request{Operation: "CONNECT", Kind: pods, Object: []byte(`{"is":"read"}`)}, read: "read",
		},
		"a wrong type in what is not read is passed": {
			request: review.Request{Operation: "CREATE", Kind: pods, Object: []byte(`{"is":"read","metadata":[]}`)}, read: "read",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			found := struct {
				Is string `json:"is"`
			}{}
			response, judged := object.Read(&tc.request, pods, &found)
			g.Expect(judged).To(Equal(tc.judged))
			g.Expect(response).To(BeComparableTo(tc.want))
			g.Expect(found.Is).To(Equal(tc.read))
		})
	}
}
