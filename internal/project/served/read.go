package served

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/reflector"
)

// reader lists and watches one resource.
type reader struct {
	reflector.Client
	// resource is the plural name.
	resource string
	// matters reports whether a reader of the cache needs an object. nil stands for all objects.
	matters func(metav1.Object) bool
}

// keep returns an object trimmed, and whether it matters.
func (r reader) keep(object client.Object) (runtime.Object, bool) {
	if r.matters != nil && !r.matters(object) {
		return nil, false
	}
	return trim(object), true
}

// all lists the current objects page by page. It keeps only those that matter, trimmed.
func (r reader) all(ctx context.Context) ([]runtime.Object, error) {
	var kept []runtime.Object
	pages := pager.New(r.List)
	pages.PageBufferSize = 0 // otherwise up to 10 pages of whole objects wait in memory
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(listed runtime.Object) error {
		object, ok := listed.(client.Object)
		if !ok {
			return fmt.Errorf("read list: unexpected type %T", listed)
		}
		if trimmed, matters := r.keep(object); matters {
			kept = append(kept, trimmed)
		}
		return nil
	})
	return kept, err
}
