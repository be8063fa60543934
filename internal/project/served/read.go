package served

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	return reflector.List(ctx, r.Client, r.keep)
}
