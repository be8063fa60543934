// Package object contains the steps that all handlers of one kind share. The package itself is independent of kinds.
package object

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

// Read decodes the object under review into the argument into, which has only the needed fields. If the result is true, the caller must
// return the response without further checks. Read allows a deletion. It refuses an object that is absent, that has another kind, or that
// has a field of a wrong type. It accepts a request without a kind for any kind.
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
