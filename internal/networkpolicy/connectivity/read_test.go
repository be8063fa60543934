package connectivity

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// inJSON answers each list in two pages, and decodes them as a client that is configured for JSON does.
type inJSON struct {
	client.Reader

	pages int
}

func (r *inJSON) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	r.pages++
	if r.pages > 6 {
		return errors.New("asked for more pages than there are")
	}
	page := `{"metadata":{"continue":"2"},"items":[{"metadata":{"name":"one","labels":{"first":"page"}}}]}`
	if (&client.ListOptions{}).ApplyOptions(options).Continue == "2" {
		page = `{"metadata":{},"items":[{"metadata":{"name":"two","labels":{"second":"page"}}}]}`
	}
	return json.Unmarshal([]byte(page), list)
}

func TestPagesInJSONAreNotMixed(t *testing.T) {
	g := NewWithT(t)
	cluster, err := read(t.Context(), &inJSON{})
	g.Expect(err).NotTo(HaveOccurred())
	one := metav1.ObjectMeta{Name: "one", Labels: map[string]string{"first": "page"}}
	two := metav1.ObjectMeta{Name: "two", Labels: map[string]string{"second": "page"}}
	g.Expect(cluster).To(BeComparableTo(&Cluster{
		Namespaces: map[string]labels.Set{"one": {"first": "page"}, "two": {"second": "page"}},
		Policies:   []networkingv1.NetworkPolicy{{ObjectMeta: one}, {ObjectMeta: two}},
		Pods:       []corev1.Pod{{ObjectMeta: one}, {ObjectMeta: two}},
	}))
}
