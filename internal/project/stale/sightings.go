package stale

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/project/usage"
)

// sightings are uses that the API server knows and the caches do not know yet. They prevent that a project is marked and cleared in turns.
// An entry lasts until the caches know the use too, or for a period. After a restart, the API server must be asked once more.
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

// complete returns the verdict of the caches, or the use that the API server has reported.
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
