package extensionaccess

import (
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// follower is the store of a reflector. It keeps the relevant fields of some objects, and nothing of all others, not even their names: a
// cluster may have very many. Its methods may be called concurrently; a restart costs one list.
type follower[T any] struct {
	// keep returns the relevant fields of an object, and false if the object is not relevant.
	keep func(client.Object) (T, bool)
	// onEvent is called after each event about any object. before or after is nil if the object was not kept, or is not kept any more.
	onEvent func(key types.NamespacedName, before, after *T)
	// listed is called instead after a complete list.
	listed func(before map[types.NamespacedName]T)

	mu   sync.RWMutex
	kept map[types.NamespacedName]T
}

// get returns what is kept of an object.
func (f *follower[T]) get(key types.NamespacedName) (T, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	found, ok := f.kept[key]
	return found, ok
}

// all returns a copy of everything that is kept.
func (f *follower[T]) all() map[types.NamespacedName]T {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return maps.Clone(f.kept)
}

// slim is an object of a list, reduced to its relevant fields; value is nil if the object is not relevant.
type slim[T any] struct {
	key   types.NamespacedName
	value *T
}

// Transformer makes the reflector drop, already while it lists, everything that is not kept.
func (f *follower[T]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		o, ok := object.(client.Object)
		if !ok {
			return object, nil
		}
		value, keep := f.keep(o)
		if !keep {
			return slim[T]{}, nil
		}
		return slim[T]{client.ObjectKeyFromObject(o), &value}, nil
	}
}

// Replace stores a list of objects, or of the values that the Transformer has made of them.
func (f *follower[T]) Replace(list []any, _ string) error {
	next, transform := map[types.NamespacedName]T{}, f.Transformer()
	for _, each := range list {
		transformed, err := transform(each)
		if err != nil {
			return err
		}
		found, ok := transformed.(slim[T])
		if !ok {
			return fmt.Errorf("take over a listing: unexpected %T", each)
		}
		if found.value != nil {
			next[found.key] = *found.value
		}
	}
	f.mu.Lock()
	before := f.kept
	f.kept = next
	f.mu.Unlock()
	f.listed(before)
	return nil
}

// Add stores an object.
func (f *follower[T]) Add(object any) error { return f.Update(object) }

// Update stores an object.
func (f *follower[T]) Update(object any) error {
	o, ok := object.(client.Object)
	if !ok {
		return fmt.Errorf("take note of an object: unexpected %T", object)
	}
	if value, keep := f.keep(o); keep {
		f.set(client.ObjectKeyFromObject(o), &value)
	} else {
		f.set(client.ObjectKeyFromObject(o), nil)
	}
	return nil
}

// Delete removes an object.
func (f *follower[T]) Delete(object any) error {
	o, ok := object.(client.Object)
	if !ok {
		return fmt.Errorf("forget an object: unexpected %T", object)
	}
	f.set(client.ObjectKeyFromObject(o), nil)
	return nil
}

// Resync does nothing.
func (f *follower[T]) Resync() error { return nil }

func (f *follower[T]) set(key types.NamespacedName, after *T) {
	f.mu.Lock()
	var before *T
	if found, ok := f.kept[key]; ok {
		before = &found
	}
	if after == nil {
		delete(f.kept, key)
	} else {
		f.kept[key] = *after
	}
	f.mu.Unlock()
	f.onEvent(key, before, after)
}
