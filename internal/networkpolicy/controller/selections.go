package controller

import (
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/networkpolicy/desired"
)

// Selections finds the Services that select a namespace as a client, without a check of every Service: most of them have the same value in
// their annotation. It is filled from the cache of Services. The zero value is ready for use, and safe for concurrent use.
type Selections struct {
	mu     sync.Mutex
	byText map[string]*choice
	textOf map[types.NamespacedName]string
}

// choice is one value of the annotation, with the Services that have it.
type choice struct {
	selectors []labels.Selector // empty if the value is invalid
	services  map[types.NamespacedName]bool
}

// set records the value of a Service's annotation; present is false if there is none.
func (s *Selections) set(service types.NamespacedName, text string, present bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(service)
	if !present {
		return
	}
	if s.byText == nil {
		s.byText, s.textOf = map[string]*choice{}, map[types.NamespacedName]string{}
	}
	if s.byText[text] == nil {
		selectors, _ := desired.Selectors(text) // the reconciler reports the fault
		s.byText[text] = &choice{selectors: selectors, services: map[types.NamespacedName]bool{}}
	}
	s.byText[text].services[service] = true
	s.textOf[service] = text
}

// remove drops a Service. The caller must have locked s.mu.
func (s *Selections) remove(service types.NamespacedName) {
	text, ok := s.textOf[service]
	if !ok {
		return
	}
	delete(s.textOf, service)
	delete(s.byText[text].services, service)
	if len(s.byText[text].services) == 0 {
		delete(s.byText, text)
	}
}

// differing returns the Services that select exactly one of two label sets. No Service selects a nil set.
func (s *Selections) differing(before, after labels.Set) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	var services []types.NamespacedName
	for _, each := range s.byText {
		was := before != nil && desired.Matches(each.selectors, before)
		is := after != nil && desired.Matches(each.selectors, after)
		if was == is {
			continue
		}
		for service := range each.services {
			services = append(services, service)
		}
	}
	return services
}
