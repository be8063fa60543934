package reflector

import (
	"iter"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Table is a Receiver that stores the values of all objects. Its methods may be called concurrently. A restart costs one list.
type Table[T any] struct {
	// Changed is called after each event. The argument before is nil if the Table did not store the object before, after is nil if it does
	// not store it now.
	Changed func(key types.NamespacedName, before, after *T)
	// Listed is called after a complete list, instead of Changed, with the values that were stored before the list.
	Listed func(before map[types.NamespacedName]T)

	mu     sync.RWMutex
	values map[types.NamespacedName]T
}

var _ Receiver[any] = &Table[any]{}

// Get returns the value of an object.
func (t *Table[T]) Get(key types.NamespacedName) (T, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	found, ok := t.values[key]
	return found, ok
}

// All returns all values. The values do not change during the iteration, because the Table is locked. The body of the loop must not call
// methods of the Table: if a writer waits for the lock, the loop and the writer would wait for each other.
func (t *Table[T]) All() iter.Seq2[types.NamespacedName, T] {
	return func(yield func(types.NamespacedName, T) bool) {
		t.mu.RLock()
		defer t.mu.RUnlock()
		maps.All(t.values)(yield)
	}
}

// Set implements Receiver.
func (t *Table[T]) Set(key types.NamespacedName, value T) { t.set(key, &value) }

// Delete implements Receiver.
func (t *Table[T]) Delete(key types.NamespacedName, _ string) { t.set(key, nil) }

func (t *Table[T]) set(key types.NamespacedName, after *T) {
	t.mu.Lock()
	var before *T
	if found, ok := t.values[key]; ok {
		before = &found
	}
	switch {
	case after == nil:
		delete(t.values, key)
	case t.values == nil:
		t.values = map[types.NamespacedName]T{key: *after}
	default:
		t.values[key] = *after
	}
	t.mu.Unlock()
	t.Changed(key, before, after)
}

// Replace implements Receiver.
func (t *Table[T]) Replace(values map[types.NamespacedName]T, _ string) {
	t.mu.Lock()
	before := t.values
	t.values = values
	t.mu.Unlock()
	t.Listed(before)
}
