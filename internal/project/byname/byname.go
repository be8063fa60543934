// Package byname is for what a process remembers of named objects until it ends.
package byname

import (
	"reflect"
	"sync"
)

// Map has a value for each name. It stores only values that are not the zero value of their type. The zero Map is ready for use. Its
// methods may be called concurrently.
type Map[T any] struct {
	mu     sync.Mutex
	values map[string]T
}

// Change calls a function with the value of a name, which the function may change. The function must not call methods of the Map.
func (m *Map[T]) Change(name string, change func(value *T)) {
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
func (m *Map[T]) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, name)
}

// Names returns the names whose values a function selects.
func (m *Map[T]) Names(selects func(value T) bool) []string {
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
