package confirmation_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/project/webhook/confirmation"
)

func TestHandle(t *testing.T) {
	allowed := review.Response{Allowed: true, Code: 200}
	refused := review.Response{Code: 403, Reason: "Forbidden", Message: `must have a "confirmation.gardener.cloud/deletion" annotation to delete`}
	annotated := func(value string) []byte {
		return []byte(`{"metadata":{"name":"p","annotations":{"confirmation.gardener.cloud/deletion":` + value + `}}}`)
	}
	for name, tc := range map[string]struct {
		request review.Request
		want    review.Response
	}{
		"confirmed":                        {review.Request{Operation: review.Delete, Name: "p", OldObject: annotated(`"true"`)}, allowed},
		"confirmed in another way":         {review.Request{Operation: review.Delete, Name: "p", OldObject: annotated(`"T"`)}, allowed},
		"confirmed, one of a collection":   {review.Request{Operation: review.Delete, OldObject: annotated(`"1"`)}, allowed},
		"unconfirmed":                      {review.Request{Operation: review.Delete, Name: "p", OldObject: []byte(`{"metadata":{"name":"p"}}`)}, refused},
		"unconfirmed, one of a collection": {review.Request{Operation: review.Delete, OldObject: []byte(`{}`)}, refused},
		"said not to be":                   {review.Request{Operation: review.Delete, Name: "p", OldObject: annotated(`"false"`)}, refused},
		"what is no boolean":               {review.Request{Operation: review.Delete, Name: "p", OldObject: annotated(`"yes"`)}, refused},
		"null":                             {review.Request{Operation: review.Delete, Name: "p", OldObject: annotated(`null`)}, refused},
		"only the new object is confirmed": {review.Request{Operation: review.Delete, Name: "p", Object: annotated(`"true"`), OldObject: []byte(`{}`)}, refused},
		"what is no string":                {review.Request{Operation: review.Delete, Name: "p", OldObject: annotated(`true`)}, review.Response{Code: 400, Message: "metadata.annotations.confirmation.gardener.cloud/deletion: must not be a boolean"}},
		"an object is missing":             {review.Request{Operation: review.Delete, Name: "p"}, review.Response{Code: 500, Message: "no object found in admission request"}},
		"an update":                        {review.Request{Operation: review.Update, OldObject: []byte(`{}`)}, allowed},
		"a creation":                       {review.Request{Operation: review.Create}, allowed},
		"a Shoot is judged likewise":       {review.Request{Operation: review.Delete, Name: "s", Namespace: "ns", OldObject: []byte(`{"kind":"Shoot"}`)}, refused},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := reviewtest.Handle(t, confirmation.Handler{}, &tc.request)
			NewWithT(t).Expect(response).To(BeComparableTo(tc.want))
		})
	}
}
