package lifecycle

import (
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/expiry"
	"github.com/espalier-dev/espalier/internal/project/roles"
	"github.com/espalier-dev/espalier/internal/repair"
)

// reconciledProjects remembers which Projects are fully reconciled, so that events about this process's own writes, which arrive before all
// caches have them, cause no second reconciliation. It also remembers what was repaired and reported. It has its own lock; a restart costs
// one comparison of each Project with the caches. The zero value is ready for use.
type reconciledProjects struct {
	mu     sync.Mutex
	byName map[string]*projectState
}

// projectState is what is remembered of one Project.
type projectState struct {
	// done is the state of the Project when its reconciliation was finished; nil if it must be reconciled.
	done *reconciledState
	// working is true while the Project is being reconciled, and its objects have not changed since the reconciliation began.
	working bool
	// reportedProblems are the last reported problems of the Project's annotation.
	reportedProblems string
	// extensions are the names of the objects of extension roles that the Project needed when it was last reconciled.
	extensions sets.Set[string]
	// repairs delay the repair of a role or binding that another client keeps changing.
	repairs map[string]*repair.Backoff
}

type reconciledState struct {
	uid        types.UID
	generation int64
	expiry     string
	until      time.Time // zero: without end
}

// unneededExtensionRoles stands for all extension roles that no member has, if another client keeps creating them.
const unneededExtensionRoles = "extension roles that no member has"

// isEmpty reports whether nothing is remembered of a Project.
func (p *projectState) isEmpty() bool {
	return p.done == nil && !p.working && p.reportedProblems == "" && len(p.extensions) == 0 && len(p.repairs) == 0
}

// lock locks, and returns the state of a Project, which the caller may change, and the function that unlocks.
func (s *reconciledProjects) lock(name string) (state *projectState, unlock func()) {
	s.mu.Lock()
	state, found := s.byName[name]
	if !found {
		state = &projectState{}
	}
	return state, func() {
		defer s.mu.Unlock()
		switch {
		case state.isEmpty():
			delete(s.byName, name)
		case s.byName == nil:
			s.byName = map[string]*projectState{name: state}
		default:
			s.byName[name] = state
		}
	}
}

// isReconciled reports whether a Project needs nothing, and until when; zero means without end. A Project that has lost the finalizer
// needs it again: without it, the Project would be gone before its namespace is released.
func (s *reconciledProjects) isReconciled(p *corev1beta1.Project, now time.Time) (until time.Time, ok bool) {
	state, unlock := s.lock(p.Name)
	defer unlock()
	d := state.done
	if d == nil || !slices.Contains(p.Finalizers, corev1beta1.GardenerFinalizer) || d.uid != p.UID || d.generation != p.Generation ||
		d.expiry != p.Annotations[expiry.Annotation] {
		return time.Time{}, false
	}
	return d.until, d.until.IsZero() || now.Before(d.until)
}

func (s *reconciledProjects) begin(name string) {
	state, unlock := s.lock(name)
	defer unlock()
	state.done, state.working = nil, true
}

// finish records that the reconciliation is finished, unless markChanged was called meanwhile.
func (s *reconciledProjects) finish(p *corev1beta1.Project, until time.Time) {
	state, unlock := s.lock(p.Name)
	defer unlock()
	if state.working {
		state.done = &reconciledState{uid: p.UID, generation: p.Generation, expiry: p.Annotations[expiry.Annotation], until: until}
	}
	state.working = false
}

// recordProblems records the problems of a Project, and reports whether they differ from the recorded ones. After a restart, nothing is
// recorded.
func (s *reconciledProjects) recordProblems(name string, problems []string) (changed bool) {
	state, unlock := s.lock(name)
	defer unlock()
	before := state.reportedProblems
	state.reportedProblems = strings.Join(problems, "\n")
	return state.reportedProblems != before
}

// recordExtensionRoles records which objects of extension roles a Project needs.
func (s *reconciledProjects) recordExtensionRoles(name string, desired []client.Object) {
	state, unlock := s.lock(name)
	defer unlock()
	state.extensions = nil
	for _, each := range desired {
		if len(roles.ExtensionOf(each)) == 0 {
			continue
		}
		if state.extensions == nil {
			state.extensions = sets.New[string]()
		}
		state.extensions.Insert(each.GetName())
	}
}

// needsExtensionRole reports whether a Project needed an object of an extension role when it was last reconciled.
func (s *reconciledProjects) needsExtensionRole(name, object string) bool {
	state, unlock := s.lock(name)
	defer unlock()
	return state.extensions.Has(object)
}

// recordRepair records a repair. It returns the pause that follows it; zero for none.
func (s *reconciledProjects) recordRepair(name, about string, now time.Time) time.Duration {
	state, unlock := s.lock(name)
	defer unlock()
	next, pause := state.repairs[about].Repaired("", now)
	if state.repairs == nil {
		state.repairs = map[string]*repair.Backoff{}
	}
	state.repairs[about] = next
	return pause
}

// remainingPause returns how long the next repair must wait.
func (s *reconciledProjects) remainingPause(name, about string, now time.Time) time.Duration {
	state, unlock := s.lock(name)
	defer unlock()
	return state.repairs[about].Remaining(now)
}

// markChanged records that an object of a Project was changed or deleted, or that the Project is being deleted.
func (s *reconciledProjects) markChanged(name string) {
	state, unlock := s.lock(name)
	defer unlock()
	state.done, state.working = nil, false
}

// forget drops what is remembered of a deleted Project.
func (s *reconciledProjects) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byName, name)
}
