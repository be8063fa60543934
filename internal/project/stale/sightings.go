package stale

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/project/usage"
)

// liveUses are uses that the API server knows and the caches do not know yet. They prevent that a project is marked and cleared in turns.
// An entry lasts until the caches know the use too, or for a period. After a restart, the API server must be asked once more.
type liveUses struct {
	mu     sync.Mutex // guards byName
	byName map[string]liveUse
}

type liveUse struct {
	uid   types.UID
	by    string
	until time.Time
}

func (s *liveUses) record(name string, use liveUse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string]liveUse{}
	}
	s.byName[name] = use
}

// complete returns the verdict of the caches, or the use that the API server has reported.
func (s *liveUses) complete(name string, uid types.UID, now time.Time, cached usage.Verdict) usage.Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	use, has := s.byName[name]
	if !has {
		return cached
	}
	if cached.By != "" || use.uid != uid || !now.Before(use.until) {
		delete(s.byName, name)
		return cached
	}
	return usage.Verdict{By: use.by, WithoutShoots: cached.WithoutShoots}
}

func (s *liveUses) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byName, name)
}
