// Package reviewtest makes requests for tests of admission handlers, and checks the rules that every response must follow.
package reviewtest

import (
	"bytes"
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

// Request makes a request for an object in YAML or JSON, in the form that API servers send. In an update, the object and the old object
// are the same. In a deletion, only the old object is set. The request takes its name and namespace from the object; both may be empty.
func Request(tb testing.TB, operation review.Operation, resource schema.GroupVersionResource, object string) *review.Request {
	tb.Helper()
	g := NewWithT(tb)
	encoded, err := yaml.YAMLToJSON([]byte(object))
	g.Expect(err).NotTo(HaveOccurred())
	known := struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
	}{}
	g.Expect(json.Unmarshal(encoded, &known)).To(Succeed())
	request := &review.Request{
		UID: "uid", Kind: schema.FromAPIVersionAndKind(known.APIVersion, known.Kind), Resource: resource, Operation: operation,
		Name: known.Metadata.Name, Namespace: known.Metadata.Namespace,
	}
	if operation != review.Delete {
		request.Object = encoded
	}
	if operation == review.Update || operation == review.Delete {
		request.OldObject = encoded
	}
	return request
}

// Handle makes a handler judge a request, and returns the response and the patched object. It checks the rules for every response: the
// request stays unchanged, a refusal has no patch, a patch can be applied, and the handler allows the patched object without a new patch.
func Handle(tb testing.TB, handler review.Handler, request *review.Request) (response review.Response, after []byte) {
	tb.Helper()
	g := NewWithT(tb)
	before := bytes.Clone(request.Object)
	response = handler.Handle(tb.Context(), request)
	g.Expect(request.Object).To(Equal(before), "a handler must not change the bytes of a request")
	if !response.Allowed || len(response.Patch) == 0 {
		g.Expect(response.Patch).To(BeEmpty())
		return response, request.Object
	}
	after = Apply(tb, request.Object, response.Patch)
	again := *request
	again.Object = after
	second := handler.Handle(tb.Context(), &again)
	g.Expect(second.Allowed).To(BeTrue(), "its own result is refused: %s", second.Message)
	g.Expect(string(second.Patch)).To(BeEmpty(), "its own result is changed again")
	return response, after
}

// Apply applies a JSON Patch to an object.
func Apply(tb testing.TB, object, document []byte) []byte {
	tb.Helper()
	g := NewWithT(tb)
	decoded, err := jsonpatch.DecodePatch(document)
	g.Expect(err).NotTo(HaveOccurred(), "%s", document)
	after, err := decoded.Apply(object)
	g.Expect(err).NotTo(HaveOccurred(), "%s", document)
	return after
}

// Same requires that an object equals the wanted one, which is written as YAML or JSON.
func Same(tb testing.TB, object []byte, want string) {
	tb.Helper()
	g := NewWithT(tb)
	encoded, err := yaml.YAMLToJSON([]byte(want))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(object).To(MatchJSON(encoded))
}
