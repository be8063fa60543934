package stale

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/project/served"
)

// held are the Projects that nobody could judge. A restart finds them again with the first pass.
type held struct {
	mu    sync.Mutex // guards what follows
	names map[string]struct{}
	told  bool
}

func (h *held) add(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.names == nil {
		h.names = map[string]struct{}{}
	}
	h.names[name] = struct{}{}
}

func (h *held) drop(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.names, name)
}

func (h *held) list() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := make([]string, 0, len(h.names))
	for name := range h.names {
		names = append(names, name)
	}
	return names
}

func (h *held) count() int { return len(h.list()) }

// turn notes whether it was told that nobody can judge, and returns whether that is new.
func (h *held) turn(told bool) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed = h.told != told
	h.told = told
	return changed
}

// wake looks again at all Projects that could not be judged.
func (r *Reconciler) wake() {
	for _, name := range r.held.list() {
		r.again.Add(name)
	}
}

// reportHeld tells, once for all Projects, when judging is suspended and when it goes on. A process that has just begun and
// does not know yet what is served has nothing to tell.
func (r *Reconciler) reportHeld(ctx context.Context, name string, f facts, p plan) error {
	if !p.hold {
		r.held.drop(name)
		if r.seesAll() && r.held.turn(false) {
			log.FromContext(ctx).Info("Projects are judged again")
			return r.Events.resumed(ctx, f.now)
		}
		return nil
	}
	r.held.add(name)
	if f.use.Why != "" && r.held.turn(true) {
		log.FromContext(ctx).Info("Projects are neither marked nor deleted, because nobody can tell whether they are used", "why", f.use.Why)
		return r.Events.suspended(ctx, f.now, f.use.Why)
	}
	return nil
}

func (r *Reconciler) seesAll() bool {
	for _, kind := range served.Kinds() {
		if r.Served.Finding(kind).State == served.Unknown {
			return false
		}
	}
	return true
}
