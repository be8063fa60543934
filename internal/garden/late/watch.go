// Package late begins watches of kinds that the API server may not serve yet when a controller starts.
//
// The operator itself creates the CRDs of some kinds that its controllers watch, and a watch of a kind that is not served would end the
// process.
package late

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Watch is a watch that begins as soon as the API server serves its kind. Its methods may be called concurrently. After a restart of the
// process, the watch begins anew.
type Watch struct {
	kind   schema.GroupKind // for errors
	served func() error
	start  func() error

	mu      sync.Mutex // guards started
	started bool
}

// NewWatch returns a watch that has not begun. The function start starts it.
func NewWatch(mapper meta.RESTMapper, kind schema.GroupKind, start func() error) *Watch {
	return &Watch{kind: kind, served: func() error { return isServed(mapper, kind) }, start: start}
}

// Begin starts the watch if the kind is served now and the watch has not begun. Controllers call it again until HasBegun.
func (w *Watch) Begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started {
		return nil
	}
	if err := w.served(); err != nil {
		if meta.IsNoMatchError(err) {
			return nil
		}
		return fmt.Errorf("ask whether %s is served: %w", w.kind, err)
	}
	if err := w.start(); err != nil {
		return fmt.Errorf("watch %s: %w", w.kind, err)
	}
	w.started = true
	return nil
}

// HasBegun reports whether the watch has begun.
func (w *Watch) HasBegun() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.started
}

// refresher is a mapper that remembers for a while that a kind is not served.
type refresher interface {
	// Refresh asks the API server again which kinds it serves.
	Refresh() error
}

// isServed returns the error of the mapper if a kind is not served, even if the mapper learned that before the operator created its CRD.
func isServed(mapper meta.RESTMapper, kind schema.GroupKind) error {
	_, err := mapper.RESTMapping(kind)
	if remembers, ok := mapper.(refresher); ok && meta.IsNoMatchError(err) {
		if failure := remembers.Refresh(); failure != nil {
			return failure
		}
		_, err = mapper.RESTMapping(kind)
	}
	return err
}
