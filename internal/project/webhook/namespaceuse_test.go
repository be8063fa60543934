package webhook_test

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/project/webhook"
)

// namespaceUseProjects lists Projects of one namespace, as an API server would.
type namespaceUseProjects struct {
	client.Reader
	names []string
	err   error
	asked []string
}

func (p *namespaceUseProjects) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := &client.ListOptions{}
	asked.ApplyOptions(options)
	found, ok := list.(*metav1.PartialObjectMetadataList)
	if !ok || asked.Limit != 2 {
		return errors.New("more was asked for than is needed")
	}
	p.asked = append(p.asked, found.Kind+" "+asked.FieldSelector.String())
	for _, name := range p.names {
		found.Items = append(found.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return p.err
}

func TestNamespaceUse(t *testing.T) {
	allowed := review.Response{Allowed: true, Code: 200}
	refused := review.Response{Code: 403, Reason: "Forbidden", Message: `namespace "garden-x" is already used by another project`}
	const (
		with    = `{"metadata":{"name":"p"},"spec":{"namespace":"garden-x"}}`
		without = `{"metadata":{"name":"p"},"spec":{}}`
	)
	asked := []string{"ProjectList spec.namespace=garden-x"}
	for name, tc := range map[string]struct {
		request  review.Request
		projects namespaceUseProjects
		want     review.Response
		asked    []string
	}{
		"a new namespace": {
			review.Request{Operation: review.Create, Object: []byte(with)}, namespaceUseProjects{}, allowed, asked,
		},
		"a namespace that is used": {
			review.Request{Operation: review.Create, Object: []byte(with)}, namespaceUseProjects{names: []string{"o"}}, refused, asked,
		},
		"used by the Project itself": {
			review.Request{Operation: review.Create, Object: []byte(with)}, namespaceUseProjects{names: []string{"p"}}, allowed, asked,
		},
		"used by the Project itself and another": {
			review.Request{Operation: review.Create, Object: []byte(with)}, namespaceUseProjects{names: []string{"p", "q"}}, refused, asked,
		},
		"set later": {
			review.Request{Operation: review.Update, Object: []byte(with), OldObject: []byte(without)},
			namespaceUseProjects{names: []string{"o"}},
			refused, asked,
		},
		"set later on what had no spec": {
			review.Request{Operation: review.Update, Object: []byte(with), OldObject: []byte(`{}`)}, namespaceUseProjects{}, allowed, asked,
		},
		"unchanged": {
			review.Request{Operation: review.Update, Object: []byte(with), OldObject: []byte(with)},
			namespaceUseProjects{names: []string{"o"}},
			allowed, nil,
		},
		"none": {
			review.Request{Operation: review.Create, Object: []byte(without)}, namespaceUseProjects{names: []string{"o"}}, allowed, nil,
		},
		"no spec": {
			review.Request{Operation: review.Create, Object: []byte(`{}`)}, namespaceUseProjects{names: []string{"o"}}, allowed, nil,
		},
		"a deletion": {
			review.Request{Operation: review.Delete, OldObject: []byte(with)}, namespaceUseProjects{names: []string{"o"}}, allowed, nil,
		},
		"the status": {
			review.Request{Operation: review.Update, SubResource: "status", Object: []byte(with), OldObject: []byte(without)},
			namespaceUseProjects{names: []string{"o"}},
			allowed, nil,
		},
		"an error of the API server": {
			review.Request{Operation: review.Create, Object: []byte(with)},
			namespaceUseProjects{err: errors.New("down")},
			review.Response{Code: 500, Message: `list Projects of namespace "garden-x": down`},
			asked,
		},
		"an object that cannot be read": {
			review.Request{Operation: review.Create, Object: []byte(`[]`)},
			namespaceUseProjects{},
			review.Response{Code: 400, Message: "object: must not be a list"},
			nil,
		},
		"an old object that cannot be read": {
			review.Request{Operation: review.Update, Object: []byte(with), OldObject: []byte(`[]`)},
			namespaceUseProjects{},
			review.Response{Code: 400, Message: "object: must not be a list"},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			response, _ := reviewtest.Handle(t, handler("namespace-use", webhook.Settings{Live: &tc.projects}), &tc.request)
			g.Expect(response).To(BeComparableTo(tc.want))
			g.Expect(tc.projects.asked).To(Equal(tc.asked))
		})
	}
}
