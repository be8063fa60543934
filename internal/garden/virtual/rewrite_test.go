package virtual

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/espalier-dev/espalier/internal/garden/values"
)

func TestRewriteStopsAtEncryptedResourcesThatAreNotServed(t *testing.T) {
	const remedy = "; serve it again, or confirm the loss of its objects with the annotation espalier.dev/confirm-lost-resources="
	const thing, shoot = "things.example.com", "shoots.core.gardener.cloud"
	for sentence, tc := range map[string]struct {
		resource  string
		encrypted []string
		unknown   bool
		confirmed []string
		want      string
	}{
		"a resource that was encrypted": {
			resource: thing, encrypted: []string{thing}, want: "the virtual cluster does not serve the encrypted resource " + thing + remedy + thing,
		},
		"a resource that is always encrypted": {
			resource: "secrets", want: "the virtual cluster does not serve the encrypted resource secrets" + remedy + "secrets",
		},
		"a resource that may have been encrypted": {
			resource: thing, unknown: true, want: "the virtual cluster does not serve the encrypted resource " + thing + remedy + thing,
		},
		"a resource of Gardener": {
			resource: shoot,
			want:     "gardener-apiserver does not serve the encrypted resource " + shoot + " (see kubectl get apiservices)" + remedy + shoot,
		},
		"a resource that is new":              {resource: thing},
		"a resource whose loss is confirmed":  {resource: thing, encrypted: []string{thing}, confirmed: []string{"", thing}},
		"a resource of Gardener is confirmed": {resource: shoot, confirmed: []string{shoot}},
		"the loss of another resource is confirmed": {
			resource: thing, encrypted: []string{thing}, confirmed: []string{shoot},
			want: "the virtual cluster does not serve the encrypted resource " + thing + remedy + thing,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			r := rewriter{confirmedLosses: tc.confirmed}
			r.values = values.Values{EncryptedProvider: "aescbc", EncryptedResources: tc.encrypted}
			if tc.unknown {
				r.values.EncryptedProvider = ""
			}
			if err := r.unserved(tc.resource); tc.want != "" {
				NewWithT(t).Expect(err).To(MatchError(tc.want))
			} else {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
			}
		})
	}
}

// Only after an answer about a single object, the rewrite continues with the other objects.
func TestRewriteGoesOnAfterRefusedObjects(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	denied := errors.New("admission webhook denied the request")
	for sentence, tc := range map[string]struct {
		answer error
		goesOn bool
	}{
		"a webhook denies it":             {answer: apierrors.NewForbidden(secrets, "refused", denied), goesOn: true},
		"a webhook denies it as invalid":  {answer: apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "refused", nil), goesOn: true},
		"a webhook denies it as bad":      {answer: apierrors.NewBadRequest("bad"), goesOn: true},
		"a webhook fails":                 {answer: apierrors.NewInternalError(denied), goesOn: true},
		"a write conflicts":               {answer: apierrors.NewConflict(secrets, "refused", denied), goesOn: true},
		"the object is gone":              {answer: apierrors.NewNotFound(secrets, "refused")},
		"the API server does not answer":  {answer: errors.New("connection refused")},
		"the API server is overloaded":    {answer: apierrors.NewTooManyRequests("later", 1)},
		"the API server starts":           {answer: apierrors.NewServiceUnavailable("later")},
		"the token is not valid any more": {answer: apierrors.NewUnauthorized("no")},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(isRefusal(fmt.Errorf("write: %w", tc.answer))).To(Equal(tc.goesOn))
		})
	}

	g := NewWithT(t)
	var objects []metav1.PartialObjectMetadata
	builder := fake.NewClientBuilder()
	for i := range 30 {
		name := fmt.Sprintf("written-%d", i)
		if i%2 == 0 {
			name = fmt.Sprintf("refused-%d", 100+i)
		}
		builder.WithObjects(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}})
		objects = append(objects, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}})
	}
	c := interceptor.NewClient(builder.Build(), interceptor.Funcs{Patch: func(
		ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption,
	) error {
		if strings.HasPrefix(o.GetName(), "refused") {
			return apierrors.NewForbidden(secrets, o.GetName(), denied)
		}
		return c.Patch(ctx, o, patch, options...)
	}})
	refused := &refusals{}
	g.Expect(refused.err()).NotTo(HaveOccurred())
	kind, patch := corev1.SchemeGroupVersion.WithKind("Secret"), []byte(`{"metadata":{"labels":{"a":"b"}}}`)
	g.Expect(patchAll(t.Context(), c, rate.NewLimiter(rate.Inf, 1), objects, kind, patch, refused)).To(Succeed())
	written := &corev1.SecretList{}
	g.Expect(c.List(t.Context(), written, client.MatchingLabels{"a": "b"})).To(Succeed())
	g.Expect(written.Items).To(HaveLen(15))
	g.Expect(refused.err()).To(MatchError(And(
		HavePrefix("the virtual cluster refuses to write 15 encrypted objects again; correct the objects, or what refuses them: "+
			`Secret a/refused-100: secrets "refused-100" is forbidden: admission webhook denied the request; Secret a/refused-102: `),
		ContainSubstring("Secret a/refused-118: "), HaveSuffix("; and 5 more"),
	)))
}

// The objects of former pages are no longer selected, so that a list that begins again returns only the objects that are left.
func TestRewriteGoesOnWhenTheNextPageHasExpired(t *testing.T) {
	g := NewWithT(t)
	var asked []string
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{List: func(
		_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption,
	) error {
		next := (&client.ListOptions{}).ApplyOptions(options).Continue
		asked = append(asked, next)
		if next != "" {
			return apierrors.NewResourceExpired("too old")
		}
		page, ok := list.(*metav1.PartialObjectMetadataList)
		g.Expect(ok).To(BeTrue())
		page.Items = make([]metav1.PartialObjectMetadata, 2)
		if len(asked) == 1 {
			page.Continue = "next"
		}
		return nil
	}})
	var before []int
	number := 0
	g.Expect(forPages(t.Context(), c, corev1.SchemeGroupVersion.WithKind("Secret"), client.MatchingLabels{},
		func(objects []metav1.PartialObjectMetadata, done int) error {
			before = append(before, done)
			number += len(objects)
			return nil
		})).To(Succeed())
	g.Expect(asked).To(Equal([]string{"", "next", ""}))
	g.Expect(before).To(Equal([]int{0, 2}))
	g.Expect(number).To(Equal(4))
}
