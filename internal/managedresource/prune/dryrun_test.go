package prune

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
)

// pages is an API server with the definition of Gadgets, and with two pages of Gadgets. An element of a page is "name" or "name@origin".
type pages struct {
	meta.RESTMapper
	first, second []string
	lists         []string
}

func (*pages) Reset() {}

func (*pages) Names(schema.GroupVersionKind) bool { return true }

func (*pages) Refresh() error { return nil }

func (p *pages) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	answer.Header().Set("Content-Type", "application/json")
	switch request.URL.Path {
	case "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.example.com":
		_, _ = answer.Write([]byte(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": {"group": "example.com",
			"names": {"kind": "Gadget", "plural": "gadgets"}, "versions": [{"name": "v1", "served": true}]}}`))
	case "/apis/example.com/v1/gadgets":
		next, page := "next", p.first
		if request.URL.Query().Get("continue") == "next" {
			next, page = "", p.second
		}
		isPartial := strings.HasPrefix(request.Header.Get("Accept"), "application/json;as=PartialObjectMetadataList;")
		p.lists = append(p.lists, fmt.Sprintf("%s metadata=%t", request.URL.RawQuery, isPartial))
		var items []string
		for _, each := range page {
			name, origin, _ := strings.Cut(each, "@")
			items = append(items, fmt.Sprintf(`{"metadata": {"namespace": "ns", "name": %q, "annotations": {%q: %q}}}`, name,
				resourcesv1alpha1.OriginAnnotation, origin))
		}
		_, _ = fmt.Fprintf(answer, `{"metadata": {"continue": %q}, "items": [%s]}`, next, strings.Join(items, ","))
	default:
		answer.WriteHeader(http.StatusTeapot)
	}
}

func TestDefinitionsWithoutObjects(t *testing.T) {
	const firstPage, secondPage = "limit=250 metadata=true", "continue=next&limit=250 metadata=true"
	for name, tc := range map[string]struct {
		first, second []string
		ofOthers      bool
		unused        int
		lists         []string
	}{
		"no object":             {unused: 1, lists: []string{firstPage, secondPage}},
		"an object":             {first: []string{"g@ns/mr"}, lists: []string{firstPage}},
		"an object of the set":  {first: []string{"g@ns/mr"}, ofOthers: true, unused: 1, lists: []string{firstPage, secondPage}},
		"an object of another":  {first: []string{"x@ns/other"}, ofOthers: true, lists: []string{firstPage}},
		"a copied annotation":   {first: []string{"x@ns/mr"}, ofOthers: true, lists: []string{firstPage}},
		"a listed object moved": {first: []string{"g@ns/other"}, ofOthers: true, lists: []string{firstPage}},
		"on the second page": {
			first: []string{"g@ns/mr"}, second: []string{"x"}, ofOthers: true, lists: []string{firstPage, secondPage},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			definition := resourcesv1alpha1.ObjectReference{}
			definition.APIVersion, definition.Kind, definition.Name = "apiextensions.k8s.io/v1", "CustomResourceDefinition", "gadgets.example.com"
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(definition.GroupVersionKind(), meta.RESTScopeRoot)
			p := &pages{RESTMapper: mapper, first: tc.first, second: tc.second}
			server := httptest.NewServer(p)
			t.Cleanup(server.Close)
			now := clocktesting.NewFakeClock(time.Unix(0, 0))
			target, err := apply.NewTarget(&rest.Config{Host: server.URL, QPS: -1}, server.Client(), p, 1, now)
			g.Expect(err).NotTo(HaveOccurred())
			set := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mr"}}
			set.Status.Resources = []resourcesv1alpha1.ObjectReference{gadgetReference(), definition}
			pruner := &Pruner{Target: target, Parallel: 1, Owner: ownership.Owner{Set: set}}
			g.Expect(pruner.UnusedDefinitions(t.Context(), set.Status.Resources, tc.ofOthers)).To(HaveLen(tc.unused))
			g.Expect(p.lists).To(Equal(tc.lists))
		})
	}
}
