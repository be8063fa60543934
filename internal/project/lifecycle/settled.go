package lifecycle

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/expiry"
	"github.com/espalier-dev/espalier/internal/project/memory"
	"github.com/espalier-dev/espalier/internal/project/roles"
	"github.com/espalier-dev/espalier/internal/repair"
)

// reconciledProjects remembers which Projects are fully reconciled. Events about this process's own writes arrive before all caches
// contain these writes; for a Project that is fully reconciled, such events cause no second reconciliation. reconciledProjects also
// remembers repairs and reports. A restart costs one comparison of each Project with the caches.
type reconciledProjects struct {
	projects memory.ByName[projectState]
}

// projectState is the memory about one Project.
type projectState struct {
	// done is the state of the Project when its reconciliation was finished; nil if it must be reconciled.
	done *reconciledState
	// working is true while the Project is being reconciled, and its objects have not changed since the reconciliation began.
	working bool
	// reportedProblems are the last reported problems of the Project's annotation.
	reportedProblems string
	// extensions are the names of the objects of extension roles that the Project needed when it was last reconciled.
	extensions []string
	// repairs delay the repair of a role or binding that another client keeps changing.
	repairs map[string]*repair.Backoff
}

type reconciledState struct {
	uid        types.UID
	generation int64
	expiry     string
	until      time.Time // zero: without end
}

// unneededExtensionRoles is the key of repairs for all extension roles that no member has, in case another client keeps creating them.
const unneededExtensionRoles = "extension roles that no member has"

// isReconciled reports whether a Project needs nothing, and until when; zero means without end. A Project that has lost the finalizer
// counts as not reconciled: without the finalizer, the Project would be gone before its namespace is released.
func (s *reconciledProjects) isReconciled(p *corev1beta1.Project, now time.Time) (until time.Time, ok bool) {
	s.projects.Change(p.Name, func(state *projectState) {
		d := state.done
		if d == nil || !slices.Contains(p.Finalizers, corev1beta1.GardenerFinalizer) || d.uid != p.UID || d.generation != p.Generation ||
			d.expiry != p.Annotations[expiry.Annotation] {
			return
		}
		until, ok = d.until, d.until.IsZero() || now.Before(d.until)
	})
	return until, ok
}

func (s *reconciledProjects) begin(name string) {
	s.projects.Change(name, func(state *projectState) { state.done, state.working = nil, true })
}

// finish records that the reconciliation is finished, unless markChanged was called meanwhile.
func (s *reconciledProjects) finish(p *corev1beta1.Project, until time.Time) {
	s.projects.Change(p.Name, func(state *projectState) {
		if state.working {
			state.done = &reconciledState{uid: p.UID, generation: p.Generation, expiry: p.Annotations[expiry.Annotation], until: until}
		}
		state.working = false
	})
}

// recordProblems records the problems of a Project, and reports whether they differ from the recorded ones. After a restart, nothing is
// recorded.
func (s *reconciledProjects) recordProblems(name string, problems []string) (changed bool) {
	s.projects.Change(name, func(state *projectState) {
		before := state.reportedProblems
		state.reportedProblems = strings.Join(problems, "\n")
		changed = state.reportedProblems != before
	})
	return changed
}

// recordExtensionRoles records which objects of extension roles a Project needs.
func (s *reconciledProjects) recordExtensionRoles(name string, desired []client.Object) {
	s.projects.Change(name, func(state *projectState) {
		state.extensions = nil
		for _, each := range desired {
			if len(roles.ExtensionOf(each)) > 0 {
				state.extensions = append(state.extensions, each.GetName())
			}
		}
	})
}

// needsExtensionRole reports whether a Project needed an object of an extension role when it was last reconciled.
func (s *reconciledProjects) needsExtensionRole(name, object string) (needs bool) {
	s.projects.Change(name, func(state *projectState) { needs = slices.Contains(state.extensions, object) })
	return needs
}

// recordRepair records a repair. It returns the pause that follows it; zero for none.
func (s *reconciledProjects) recordRepair(name, about string, now time.Time) (pause time.Duration) {
	s.projects.Change(name, func(state *projectState) {
		if state.repairs == nil {
			state.repairs = map[string]*repair.Backoff{}
		}
		state.repairs[about], pause = state.repairs[about].Repaired("", now)
	})
	return pause
}

// remainingPause returns how long the next repair must wait.
func (s *reconciledProjects) remainingPause(name, about string, now time.Time) (pause time.Duration) {
	s.projects.Change(name, func(state *projectState) { pause = state.repairs[about].Remaining(now) })
	return pause
}

// markChanged records that an object of a Project was changed or deleted, or that the Project is being deleted.
func (s *reconciledProjects) markChanged(name string) {
	s.projects.Change(name, func(state *projectState) { state.done, state.working = nil, false })
}
