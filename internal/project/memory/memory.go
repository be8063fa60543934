// Package memory stores values by the name of an object, in memory only.
package memory

import (
	"reflect"
	"sync"
)

// ByName stores a value for each name. It stores only values that are not the zero value of their type. An empty map or slice that is not
// nil is not zero. The zero ByName is ready for use. Its methods may be called concurrently.
type ByName[T any] struct {
	mu     sync.Mutex
	values map[string]T
}

// Change calls a function with the value of a name, which the function may change. The function must not call methods of m.
func (m *ByName[T]) Change(name string, change func(value *T)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value := m.values[name]
	change(&value)
	switch {
	case reflect.ValueOf(&value).Elem().IsZero():
		delete(m.values, name)
	case m.values == nil:
		m.values = map[string]T{name: value}
	default:
		m.values[name] = value
	}
}

// Forget sets the value of a name to the zero value.
func (m *ByName[T]) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, name)
}

// Names returns the names whose values a function selects. The function must not call methods of m.
func (m *ByName[T]) Names(selects func(value T) bool) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for name, value := range m.values {
		if selects(value) {
			names = append(names, name)
		}
	}
	return names
}
