package served

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// pageSize is the number of objects per list request, for API servers that do not stream lists.
const pageSize = 500

// reader lists and watches one resource.
type reader struct {
	// resource is the plural name.
	resource string
	// example has the type of the objects.
	example runtime.Object
	list    func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch   func(context.Context, metav1.ListOptions) (apiwatch.Interface, error)
	// matters reports whether a reader of the cache needs an object. nil stands for all objects.
	matters func(metav1.Object) bool
}

// all lists the current objects page by page. Of each page it keeps only the objects that matter, trimmed.
func (r reader) all(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.Limit, options.ResourceVersion, options.ResourceVersionMatch = pageSize, "", ""
	var kept []runtime.Object
	for {
		page, err := r.list(ctx, options)
		if err != nil {
			return nil, err
		}
		if kept, err = r.keep(kept, page); err != nil {
			return nil, err
		}
		about, err := meta.ListAccessor(page)
		if err != nil {
			return nil, fmt.Errorf("read list: %w", err)
		}
		if options.Continue = about.GetContinue(); options.Continue == "" {
			return page, meta.SetList(page, kept)
		}
	}
}

func (r reader) keep(kept []runtime.Object, page runtime.Object) ([]runtime.Object, error) {
	err := meta.EachListItem(page, func(object runtime.Object) error {
		if r.wants(object) {
			kept = append(kept, trim(object))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read list: %w", err)
	}
	return kept, nil
}

// filterEvent passes on events of objects that matter, trimmed. An object that no longer matters is reported as deleted.
func (r reader) filterEvent(in apiwatch.Event) (out apiwatch.Event, through bool) {
	switch in.Type {
	case apiwatch.Error, apiwatch.Bookmark:
		return in, true
	case apiwatch.Added:
		through = r.wants(in.Object)
	case apiwatch.Modified:
		through = true
		if !r.wants(in.Object) {
			in.Type = apiwatch.Deleted
		}
	case apiwatch.Deleted:
		through = true
	}
	in.Object = trim(in.Object)
	return in, through
}

func (r reader) wants(object runtime.Object) bool {
	found, ok := object.(metav1.Object)
	return r.matters == nil || !ok || r.matters(found)
}
