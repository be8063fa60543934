// Package object has the steps that all handlers of one kind of object share. It knows no kind by itself.
package object

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

// Read decodes the part of an object under review that into has fields for. If it returns true, the response is the verdict
// already: deleting is allowed, and an object of another kind, an absent one, or one with fields of wrong types cannot be read. A
// request without a kind is taken to be about the wanted one.
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

// Expect is Read without the decoding, for handlers whose objects are secret: the decoder's errors quote the refused value.
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
