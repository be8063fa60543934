package webhook_test

import (
	"cmp"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/project/webhook"
)

func TestConfirmation(t *testing.T) {
	allowed := review.Response{Allowed: true, Code: 200}
	refused := review.Response{
		Code: 403, Reason: "Forbidden", Message: `must have a "confirmation.gardener.cloud/deletion" annotation to delete`,
	}
	annotated := func(value string) []byte {
		return []byte(`{"metadata":{"name":"p","annotations":{"confirmation.gardener.cloud/deletion":` + value + `}}}`)
	}
	for name, tc := range map[string]struct {
		request review.Request
		want    review.Response
	}{
		"confirmed":                      {review.Request{Operation: review.Delete, Name: "p", OldObject: annotated(`"true"`)}, allowed},
		"confirmed in another way":       {review.Request{Operation: review.Delete, Name: "p", OldObject: annotated(`"T"`)}, allowed},
		"confirmed, one of a collection": {review.Request{Operation: review.Delete, OldObject: annotated(`"1"`)}, allowed},
		"unconfirmed": {
			review.Request{Operation: review.Delete, Name: "p", OldObject: []byte(`{"metadata":{"name":"p"}}`)}, refused,
		},
		"unconfirmed, one of a collection": {review.Request{Operation: review.Delete, OldObject: []byte(`{}`)}, refused},
		"said not to be":                   {review.Request{Operation: review.Delete, Name: "p", OldObject: annotated(`"false"`)}, refused},
		"what is no boolean":               {review.Request{Operation: review.Delete, Name: "p", OldObject: annotated(`"yes"`)}, refused},
		"null":                             {review.Request{Operation: review.Delete, Name: "p", OldObject: annotated(`null`)}, refused},
		"only the new object is confirmed": {
			review.Request{Operation: review.Delete, Name: "p", Object: annotated(`"true"`), OldObject: []byte(`{}`)}, refused,
		},
		"what is no string": {
			review.Request{Operation: review.Delete, Name: "p", OldObject: annotated(`true`)},
			review.Response{Code: 400, Message: "metadata.annotations.confirmation.gardener.cloud/deletion: must not be a boolean"},
		},
		"an object is missing": {
			review.Request{Operation: review.Delete, Name: "p"}, review.Response{Code: 500, Message: "no object found in admission request"},
		},
		"an update":  {review.Request{Operation: review.Update, OldObject: []byte(`{}`)}, allowed},
		"a creation": {review.Request{Operation: review.Create}, allowed},
		"a Shoot is judged likewise": {
			review.Request{Operation: review.Delete, Name: "s", Namespace: "ns", OldObject: []byte(`{"kind":"Shoot"}`)}, refused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := reviewtest.Handle(t, handler("deletion-confirmation", webhook.Settings{}), &tc.request)
			NewWithT(t).Expect(response).To(BeComparableTo(tc.want))
		})
	}
}

func TestProjectsAreDeletedInTheBackground(t *testing.T) {
	const (
		foreground = `must not be deleted with propagation policy "Foreground": delete it in the background`
		orphan     = `must not be deleted with propagation policy "Orphan": delete it in the background`
		older      = `must not be deleted with its dependents orphaned: delete it in the background`
	)
	held := func(finalizer string) string {
		return `must not be deleted with finalizer "` + finalizer + `": remove it, or delete with propagation policy Background`
	}
	project := schema.GroupVersionKind{Group: "core.gardener.cloud", Version: "v1beta1", Kind: "Project"}
	for name, tc := range map[string]struct {
		kind                schema.GroupVersionKind
		finalizers, options string
		// want is "" if it is allowed.
		want string
	}{
		"without options":               {kind: project},
		"with options that say nothing": {kind: project, options: `{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1"}`},
		"in the background":             {kind: project, options: `{"propagationPolicy":"Background"}`},
		"in the foreground":             {kind: project, options: `{"propagationPolicy":"Foreground"}`, want: foreground},
		"orphaning":                     {kind: project, options: `{"propagationPolicy":"Orphan"}`, want: orphan},
		"in an unknown way": {
			kind: project, options: `{"propagationPolicy":"Later"}`,
			want: `must not be deleted with propagation policy "Later": delete it in the background`,
		},
		"orphaning in the older way":     {kind: project, options: `{"orphanDependents":true}`, want: older},
		"not orphaning in the older way": {kind: project, options: `{"orphanDependents":false}`},
		"with its own finalizer":         {kind: project, finalizers: `["gardener","other"]`},
		"prepared for the foreground": {
			kind: project, finalizers: `["gardener","foregroundDeletion"]`, want: held("foregroundDeletion"),
		},
		"prepared to orphan": {
			kind: project, finalizers: `["orphan"]`, options: `{"propagationPolicy":null}`, want: held("orphan"),
		},
		"prepared, but in the background": {
			kind: project, finalizers: `["orphan","foregroundDeletion"]`, options: `{"propagationPolicy":"Background"}`,
		},
		"prepared, but not orphaning": {kind: project, finalizers: `["orphan"]`, options: `{"orphanDependents":false}`},
		"prepared, and in the foreground": {
			kind: project, finalizers: `["orphan"]`, options: `{"propagationPolicy":"Foreground"}`, want: foreground,
		},
		"what is no policy": {
			kind: project, options: `{"propagationPolicy":1}`, want: "propagationPolicy: must not be a number",
		},
		"a Shoot goes as its own controller says": {
			kind:    schema.GroupVersionKind{Group: "core.gardener.cloud", Version: "v1beta1", Kind: "Shoot"},
			options: `{"propagationPolicy":"Foreground"}`,
		},
		"a Project of another group likewise": {
			kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Project"}, options: `{"propagationPolicy":"Foreground"}`,
		},
		"another version of a Project does not": {
			kind:    schema.GroupVersionKind{Group: "core.gardener.cloud", Version: "v1", Kind: "Project"},
			options: `{"propagationPolicy":"Orphan"}`, want: orphan,
		},
	} {
		t.Run(name, func(t *testing.T) {
			request := &review.Request{Operation: review.Delete, Kind: tc.kind, Options: []byte(tc.options)}
			request.OldObject = []byte(`{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"true"},"finalizers":` +
				cmp.Or(tc.finalizers, "null") + `}}`)
			response, _ := reviewtest.Handle(t, handler("deletion-confirmation", webhook.Settings{}), request)
			NewWithT(t).Expect(response.Message).To(Equal(tc.want))
			NewWithT(t).Expect(response.Allowed).To(Equal(tc.want == ""))
		})
	}
}
