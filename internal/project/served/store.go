package served

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// store is the store that a Reflector fills with trimmed objects. When one of its methods returns, the change is in the watch's objects; an
// informer gives no such guarantee.
type store struct{ *watch }

var _ toolscache.ReflectorStore = store{}

// Add implements toolscache.ReflectorStore.
func (s store) Add(object any) error { return s.Update(object) }

// Update implements toolscache.ReflectorStore.
func (s store) Update(object any) error {
	old, _, err := s.objects.Get(object)
	if err != nil {
		return fmt.Errorf("find object: %w", err)
	}
	if err := s.objects.Update(object); err != nil {
		return fmt.Errorf("store object: %w", err)
	}
	s.announce(old, object, false)
	return nil
}

// Delete implements toolscache.ReflectorStore.
func (s store) Delete(object any) error {
	old, _, err := s.objects.Get(object)
	if err != nil {
		return fmt.Errorf("find object: %w", err)
	}
	if err := s.objects.Delete(object); err != nil {
		return fmt.Errorf("drop object: %w", err)
	}
	s.announce(old, nil, false)
	return nil
}

// Replace implements toolscache.ReflectorStore. The given objects are all that exist.
func (s store) Replace(objects []any, version string) error {
	before := map[string]any{}
	for _, object := range s.objects.List() {
		key, err := toolscache.MetaNamespaceKeyFunc(object)
		if err != nil {
			return fmt.Errorf("name object: %w", err)
		}
		before[key] = object
	}
	if err := s.objects.Replace(objects, version); err != nil {
		return fmt.Errorf("store list: %w", err)
	}
	for _, object := range objects {
		key, err := toolscache.MetaNamespaceKeyFunc(object)
		if err != nil {
			return fmt.Errorf("name object: %w", err)
		}
		s.announce(before[key], object, true)
		delete(before, key)
	}
	for _, gone := range before {
		s.announce(gone, nil, true)
	}
	w := s.watch
	w.note(func() { w.listed = true })
	return nil
}

// Resync implements toolscache.ReflectorStore. The Reflector is not configured to call it.
func (store) Resync() error { return nil }

// announce reports a change of an object to the handlers; nil stands for no object. An object with the same name and another UID is
// reported as a deletion and a creation, even if the watch missed the time in between.
func (s store) announce(old, now any, listed bool) {
	before, had := old.(metav1.Object)
	after, has := now.(metav1.Object)
	for _, handler := range s.handlers {
		switch {
		case had && has && before.GetUID() == after.GetUID():
			if before.GetResourceVersion() != after.GetResourceVersion() {
				handler.OnUpdate(old, now)
			}
		default:
			if had {
				handler.OnDelete(old)
			}
			if has {
				handler.OnAdd(now, listed)
			}
		}
	}
}
