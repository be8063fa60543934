package stale

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/project/usage"
)

// sightings are uses that the API server knows of and the caches do not: a project that has one is not marked and cleared
// over and over. They last until the caches know too, or for a period. A restart costs one more look at the API server.
type sightings struct {
	mu     sync.Mutex // guards byName
	byName map[string]sighting
}

type sighting struct {
	uid   types.UID
	by    string
	until time.Time
}

func (s *sightings) note(name string, seen sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string]sighting{}
	}
	s.byName[name] = seen
}

// complete returns what the caches say of a Project, or what the API server has said.
func (s *sightings) complete(name string, uid types.UID, now time.Time, cached usage.Verdict) usage.Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, has := s.byName[name]
	if !has {
		return cached
	}
	if cached.By != "" || seen.uid != uid || !now.Before(seen.until) {
		delete(s.byName, name)
		return cached
	}
	return usage.Verdict{By: seen.by, WithoutShoots: cached.WithoutShoots}
}

func (s *sightings) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byName, name)
}
