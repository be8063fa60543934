package engine

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
)

// definingServer is an API server that serves a kind only after a given number of discoveries. Kinds that the client already knows need no
// discovery.
type definingServer struct {
	meta.RESTMapper
	mu                    sync.Mutex
	servedAfter           map[string]int // discoveries, by kind
	known                 []string
	discoveries, failures int
	outdated              bool
}

var definitionKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

func (s *definingServer) discover() {
	s.discoveries++
	s.outdated, s.known = false, []string{definitionKind.Kind}
	for kind, after := range s.servedAfter {
		if s.discoveries >= after {
			s.known = append(s.known, kind)
		}
	}
}

func (s *definingServer) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outdated = true
}

func (*definingServer) Names(schema.GroupVersionKind) bool { return true }

func (s *definingServer) Refresh() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discover()
	if s.discoveries <= s.failures {
		return errors.New("discovery failed")
	}
	return nil
}

func (s *definingServer) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outdated && !slices.Contains(s.known, kind.Kind) {
		s.discover()
	}
	if !slices.Contains(s.known, kind.Kind) {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	resource := kind.WithVersion(versions[0]).GroupVersion().WithResource(strings.ToLower(kind.Kind) + "s")
	return &meta.RESTMapping{Resource: resource, Scope: meta.RESTScopeRoot}, nil
}

// waitFor runs awaitDefinitions for definitions of the given kinds, and returns how long it takes on the clock of the controller, and the
// requests for objects.
func (s *definingServer) waitFor(t *testing.T, act Action, kinds ...string) (took time.Duration, requests []string) {
	t.Helper()
	g := NewWithT(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.URL.Path)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer server.Close()
	now := clocktesting.NewFakeClock(time.Unix(0, 0))
	target, err := apply.NewTarget(&rest.Config{Host: server.URL, QPS: -1}, server.Client(), s, 1, now)
	g.Expect(err).NotTo(HaveOccurred())
	manifests := map[*desired.Item]*unstructured.Unstructured{}
	var wave, objects []Task
	for _, kind := range kinds {
		name := strings.ToLower(kind) + "s.example.com"
		i := &desired.Item{Kind: definitionKind, Key: inventory.KeyOf(definitionKind.Group, definitionKind.Kind, "", name)}
		manifests[i] = &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"group": "example.com", "names": map[string]any{"kind": kind},
			"versions": []any{map[string]any{"name": "v1", "served": true}, map[string]any{"name": "v1alpha1", "served": false}},
		}}}
		wave = append(wave, Task{Facts: Facts{Item: i}, Action: act})
		object := &desired.Item{Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind}}
		objects = append(objects, Task{Facts: Facts{Item: object}, Action: Create})
	}
	e := &Executor{Engine: &Engine{Target: target}, Clock: now}
	e.Manifest = func(_ context.Context, i *desired.Item) (*unstructured.Unstructured, error) { return manifests[i], nil }
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.awaitDefinitions(t.Context(), wave, [][]Task{objects})
	}()
	for waits := true; waits; {
		select {
		case <-done:
			waits = false
		default:
			if now.HasWaiters() {
				now.Step(10 * time.Millisecond)
			}
		}
	}
	return now.Since(time.Unix(0, 0)), requests
}

func fiveKinds() []string { return []string{"Apple", "Banana", "Cherry", "Date", "Elder"} }

func TestDefinitionsOfAWaveShareEachDiscovery(t *testing.T) {
	for name, tc := range map[string]struct {
		servedAfter, failures int
		action                Action
		discoveries           int
		took                  time.Duration
	}{
		"served at once": {servedAfter: 1, action: Create, discoveries: 1},
		"served after some time": {
			servedAfter: 5, action: Create, discoveries: 5, took: (50 + 100 + 200 + 400) * time.Millisecond,
		},
		"updated, and served after some time": {
			servedAfter: 5, action: Write, discoveries: 5, took: (50 + 100 + 200 + 400) * time.Millisecond,
		},
		"served before, but discovery fails": {
			servedAfter: 1, failures: 2, action: Create, discoveries: 3, took: (50 + 100) * time.Millisecond,
		},
		"never served: one deadline for all": {
			servedAfter: 1000, action: Create, discoveries: 15, took: (50 + 100 + 200 + 400 + 800 + 9*1000) * time.Millisecond,
		},
		"left as they are: nothing to wait for": {servedAfter: 1000, action: Leave},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &definingServer{known: []string{definitionKind.Kind}, servedAfter: map[string]int{}, failures: tc.failures}
			for _, kind := range fiveKinds() {
				s.servedAfter[kind] = tc.servedAfter
			}
			took, requests := s.waitFor(t, tc.action, fiveKinds()...)
			g.Expect(s.discoveries).To(Equal(tc.discoveries))
			g.Expect(took).To(Equal(tc.took))
			g.Expect(requests).To(BeEmpty(), "the definitions themselves are not read")
		})
	}
}

// Each kind is served one discovery later than the previous kind.
func TestDefinitionsThatAreServedOneAfterTheOtherAreAwaitedTogether(t *testing.T) {
	g := NewWithT(t)
	s := &definingServer{known: []string{definitionKind.Kind}, servedAfter: map[string]int{}}
	for number, kind := range fiveKinds() {
		s.servedAfter[kind] = number + 1
	}
	_, requests := s.waitFor(t, Create, fiveKinds()...)
	g.Expect(s.discoveries).To(Equal(5))
	g.Expect(requests).To(BeEmpty())
}

func TestAnUpdatedDefinitionOfAKnownKindNeedsNoDiscovery(t *testing.T) {
	g := NewWithT(t)
	s := &definingServer{known: []string{definitionKind.Kind, "Apple"}}
	took, _ := s.waitFor(t, Write, "Apple")
	g.Expect(s.discoveries).To(BeZero())
	g.Expect(took).To(BeZero())
}

func TestAKindOfAnotherGroupDefinesNothing(t *testing.T) {
	namesake := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: definitionKind.Kind}
	read := 0
	e := &Executor{Engine: &Engine{}}
	e.Manifest = func(context.Context, *desired.Item) (*unstructured.Unstructured, error) {
		read++
		return nil, context.Canceled
	}
	tasks := func(kind schema.GroupVersionKind) []Task {
		return []Task{{Facts: Facts{Item: &desired.Item{Kind: kind}}, Action: Create}}
	}
	e.awaitDefinitions(t.Context(), tasks(namesake), nil)
	NewWithT(t).Expect(read).To(BeZero())
	e.awaitDefinitions(t.Context(), tasks(definitionKind), nil)
	NewWithT(t).Expect(read).To(Equal(1))
}

func TestKindsOfADefinition(t *testing.T) {
	version := func(name string, served bool) any { return map[string]any{"name": name, "served": served} }
	definition := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": "example.com", "names": map[string]any{"kind": "Apple"},
		"versions": []any{version("v2", true), version("v1", true), version("v1alpha1", false)},
	}}}
	var texts []string
	for _, kind := range definedKinds(definition) {
		texts = append(texts, kind.String())
	}
	NewWithT(t).Expect(texts).To(Equal([]string{"example.com/v2, Kind=Apple", "example.com/v1, Kind=Apple"}))
	NewWithT(t).Expect(definedKinds(&unstructured.Unstructured{Object: map[string]any{}})).To(BeEmpty())
}
