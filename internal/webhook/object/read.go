// Package object contains the steps that all handlers of one kind share. The package itself is independent of kinds.
package object

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

// Read decodes the fields of the object under review that into has. If it returns true, the caller must return the response without further
// checks: a deletion is allowed; an object that is absent, of another kind, or has a field of a wrong type is refused. A request without a
// kind is accepted for any kind.
func Read(request *review.Request, want schema.GroupVersionKind, into any) (review.Response, bool) {
	verdict, judged := Expect(request, want)
	if judged {
		return verdict, true
	}
	if err := request.Decode(into); err != nil {
		return review.Undecodable(err), true
	}
	return review.Response{}, false
}

// Expect is like Read without the decoding, for objects that contain secrets: the errors of the decoder would quote the value.
func Expect(request *review.Request, want schema.GroupVersionKind) (review.Response, bool) {
	if request.Operation == review.Delete {
		return review.Allowed(""), true
	}
	if got := request.Kind; got != want && got != (schema.GroupVersionKind{}) {
		return review.Undecodable(fmt.Errorf("request.kind: expected %s, got %s", describe(want), describe(got))), true
	}
	return review.Response{}, false
}

func describe(kind schema.GroupVersionKind) string {
	return fmt.Sprintf("%q", kind.GroupVersion().String()+" "+kind.Kind)
}
