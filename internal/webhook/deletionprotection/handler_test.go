package deletionprotection

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
)

// source is a reader whose List returns objects with these annotations, or an error. It records the requested lists.
type source struct {
	client.Reader
	annotations []map[string]string
	err         error

	kind     schema.GroupVersionKind
	options  client.ListOptions
	deadline bool
	asked    int
}

func (s *source) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	s.asked++
	s.kind = list.GetObjectKind().GroupVersionKind()
	s.options = *(&client.ListOptions{}).ApplyOptions(options)
	_, s.deadline = ctx.Deadline()
	for _, annotations := range s.annotations {
		objects, _ := list.(*metav1.PartialObjectMetadataList)
		objects.Items = append(objects.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}})
	}
	return s.err
}

func collection(resource schema.GroupVersionResource, kind, namespace string) *review.Request {
	return &review.Request{
		Operation: "DELETE", Resource: resource, Kind: resource.GroupVersion().WithKind(kind), Namespace: namespace,
		OldObject: []byte(`{"metadata":{"name":"one"}}`),
	}
}

func TestOtherOperationsAreAllowed(t *testing.T) {
	for _, operation := range []review.Operation{"CREATE", "UPDATE", "CONNECT", ""} {
		request := collection(protectedResources()[0], "CustomResourceDefinition", "")
		request.Operation = operation
		response, _ := reviewtest.Handle(t, &Handler{Source: &source{err: errors.New("not to be asked")}}, request)
		NewWithT(t).Expect(response).To(Equal(review.Response{Allowed: true, Code: 200, Message: "operation is not DELETE"}))
	}
}

func TestOtherResourcesAreAllowed(t *testing.T) {
	request := collection(schema.GroupVersionResource{Group: "foo", Version: "bar", Resource: "baz"}, "Baz", "")
	response, _ := reviewtest.Handle(t, &Handler{Source: &source{err: errors.New("not to be asked")}}, request)
	NewWithT(t).Expect(response).To(Equal(review.Response{Allowed: true, Code: 200, Message: "resource is not deletion-protected"}))
}

func TestNamedObjectsAreNotLookedUp(t *testing.T) {
	g := NewWithT(t)
	s := &source{}
	for _, resource := range protectedResources() {
		request := collection(resource, "Any", "ns")
		request.Name = "one"
		response, _ := reviewtest.Handle(t, &Handler{Source: s}, request)
		g.Expect(response).To(Equal(review.Response{Code: 403, Reason: "Forbidden", Message: missing}))
	}
	g.Expect(s.asked).To(BeZero())
}

func TestCollections(t *testing.T) {
	confirmed, not := map[string]string{"confirmation.gardener.cloud/deletion": "true"},
		map[string]string{"confirmation.gardener.cloud/deletion": "false"}
	allowed, denied := review.Response{Allowed: true, Code: 200}, review.Response{Code: 403, Reason: "Forbidden", Message: missing}
	resource := schema.GroupResource{Group: "g", Resource: "r"}
	for name, tc := range map[string]struct {
		source source
		want   review.Response
	}{
		"no object is left": {want: allowed},
		"all confirmed":     {source: source{annotations: []map[string]string{confirmed, confirmed}}, want: allowed},
		"the first is not":  {source: source{annotations: []map[string]string{not, confirmed}}, want: denied},
		"the last is not":   {source: source{annotations: []map[string]string{confirmed, confirmed, nil}}, want: denied},
		"the kind is gone": {
			source: source{err: apierrors.NewNotFound(resource, "")},
			want:   review.Response{Allowed: true, Code: 200, Message: "object was not found"},
		},
		"the list cannot be read": {source: source{err: errors.New("fake")}, want: review.Response{Code: 500, Message: "fake"}},
		"the list is not for us": {
			source: source{err: apierrors.NewForbidden(resource, "", nil)},
			want:   review.Response{Code: 500, Message: `r.g is forbidden: <nil>`},
		},
		"an error with some items": {
			source: source{annotations: []map[string]string{confirmed}, err: errors.New("fake")},
			want:   review.Response{Code: 500, Message: "fake"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for _, resource := range protectedResources() {
				s := tc.source
				response, _ := reviewtest.Handle(t, &Handler{Source: &s}, collection(resource, "Any", "ns"))
				g.Expect(response).To(Equal(tc.want), resource.String())
				g.Expect(s.asked).To(Equal(1))
				g.Expect(s.deadline).To(BeTrue(), "an API server does not wait for ever")
			}
		})
	}
}

func TestWhatIsListed(t *testing.T) {
	for name, tc := range map[string]struct {
		request   *review.Request
		kind      string
		namespace string
		labels    string
	}{
		"definitions with the label": {
			request: collection(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
				"CustomResourceDefinition", ""),
			kind: "apiextensions.k8s.io/v1, Kind=CustomResourceDefinitionList", labels: "gardener.cloud/deletion-protected=true",
		},
		"definitions in the version of the request": {
			request: collection(schema.GroupVersionResource{
				Group: "apiextensions.k8s.io", Version: "v1beta1", Resource: "customresourcedefinitions",
			}, "CustomResourceDefinition", ""),
			kind: "apiextensions.k8s.io/v1beta1, Kind=CustomResourceDefinitionList", labels: "gardener.cloud/deletion-protected=true",
		},
		"objects of a namespace": {
			request: collection(schema.GroupVersionResource{Group: "extensions.gardener.cloud", Version: "v1alpha1", Resource: "workers"}, "Worker",
				"shoot"),
			kind: "extensions.gardener.cloud/v1alpha1, Kind=WorkerList", namespace: "shoot",
		},
		"objects of the cluster": {
			request: collection(schema.GroupVersionResource{Group: "extensions.gardener.cloud", Version: "v1alpha1", Resource: "backupbuckets"},
				"BackupBucket", ""),
			kind: "extensions.gardener.cloud/v1alpha1, Kind=BackupBucketList",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &source{}
			(&Handler{Source: s}).Handle(t.Context(), tc.request)
			labels := ""
			if s.options.LabelSelector != nil {
				labels = s.options.LabelSelector.String()
			}
			g.Expect([]string{s.kind.String(), s.options.Namespace, labels}).To(Equal([]string{tc.kind, tc.namespace, tc.labels}))
		})
	}
}

func BenchmarkHandle(b *testing.B) {
	request := collection(protectedResources()[1], "CustomResourceDefinition", "")
	request.Name = "workers.extensions.gardener.cloud"
	request.OldObject = []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"n",` +
		`"annotations":{"confirmation.gardener.cloud/deletion":"true"}},"spec":{"versions":[`)
	for range 1000 {
		request.OldObject = append(request.OldObject,
			`{"name":"v1","schema":{"openAPIV3Schema":{"type":"object","description":"what it is for"}}},`...)
	}
	request.OldObject = append(request.OldObject, `{}]}}`...)
	handler := &Handler{}
	b.ReportAllocs()
	b.SetBytes(int64(len(request.OldObject)))
	for b.Loop() {
		if response := handler.Handle(b.Context(), request); !response.Allowed {
			b.Fatal(response.Message)
		}
	}
}
