package invalidator

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pages answers list requests with one page after another. Like real clients, it decodes each page into the given list.
type pages struct {
	client.Reader
	left []string
}

func (p *pages) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if len(p.left) == 0 {
		return errors.New("there are no more pages")
	}
	page := p.left[0]
	p.left = p.left[1:]
	return json.Unmarshal([]byte(page), list)
}

func TestTheLastPageOfPodsIsTheLast(t *testing.T) {
	g := NewWithT(t)
	r := &Reconciler{Live: &pages{left: []string{
		`{"metadata":{"continue":"x"},"items":[{"metadata":{"name":"a"}}]}`,
		`{"metadata":{},"items":[{"metadata":{"name":"b"}}]}`,
	}}}
	g.Expect(r.mountedBy(t.Context(), types.NamespacedName{Namespace: "ns", Name: "s"})).To(BeEmpty())
}
