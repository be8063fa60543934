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
)

// reconciledProjects remembers which Projects are fully reconciled. So events about this process's own writes, which arrive before all
// caches have them, cause no second reconciliation. It has its own lock; a restart costs one comparison of each Project with the caches.
type reconciledProjects struct {
	mu sync.Mutex
	// done is keyed by the name of the Project.
	done map[string]reconciledState
	// working are Projects that are being reconciled, and whose objects have not changed since the reconciliation began.
	working map[string]bool
	// reportedProblems is the last reported problem of a Project's annotation that cannot be parsed.
	reportedProblems map[string]string
	// extensions are the names of the objects of extension roles that a Project needed when it was last reconciled.
	extensions map[string]sets.Set[string]
}

// reconciledState is the state of a Project when its reconciliation was finished.
type reconciledState struct {
	uid        types.UID
	generation int64
	expiry     string
	until      time.Time // zero: without end
}

func newReconciledProjects() *reconciledProjects {
	return &reconciledProjects{
		done: map[string]reconciledState{}, working: map[string]bool{}, reportedProblems: map[string]string{},
		extensions: map[string]sets.Set[string]{},
	}
}

// isReconciled reports whether a Project needs nothing, and until when; zero means without end. A Project that has lost the finalizer
// needs it again: without it, the Project would be gone before its namespace is released.
func (s *reconciledProjects) isReconciled(p *corev1beta1.Project, now time.Time) (until time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.done[p.Name]
	if !ok || !slices.Contains(p.Finalizers, corev1beta1.GardenerFinalizer) || d.uid != p.UID || d.generation != p.Generation ||
		d.expiry != p.Annotations[expiry.Annotation] {
		return time.Time{}, false
	}
	return d.until, d.until.IsZero() || now.Before(d.until)
}

func (s *reconciledProjects) begin(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.done, name)
	s.working[name] = true
}

// finish records that the reconciliation is finished, unless markChanged was called meanwhile.
func (s *reconciledProjects) finish(p *corev1beta1.Project, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.working[p.Name] {
		s.done[p.Name] = reconciledState{uid: p.UID, generation: p.Generation, expiry: p.Annotations[expiry.Annotation], until: until}
	}
	delete(s.working, p.Name)
}

// recordProblems records the problems of a Project, and reports whether they differ from the recorded ones. After a restart, nothing is
// recorded.
func (s *reconciledProjects) recordProblems(name string, problems []string) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.Join(problems, "\n")
	changed = s.reportedProblems[name] != text
	if text == "" {
		delete(s.reportedProblems, name)
	} else {
		s.reportedProblems[name] = text
	}
	return changed
}

// recordExtensionRoles records which objects of extension roles a Project needs.
func (s *reconciledProjects) recordExtensionRoles(name string, desired []client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.extensions, name)
	for _, each := range desired {
		if len(roles.ExtensionOf(each)) == 0 {
			continue
		}
		if s.extensions[name] == nil {
			s.extensions[name] = sets.New[string]()
		}
		s.extensions[name].Insert(each.GetName())
	}
}

// needsExtensionRole reports whether a Project needed an object of an extension role when it was last reconciled.
func (s *reconciledProjects) needsExtensionRole(name, object string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.extensions[name].Has(object)
}

// forget drops the records of a deleted Project.
func (s *reconciledProjects) forget(name string) {
	s.markChanged(name)
	s.recordProblems(name, nil)
	s.recordExtensionRoles(name, nil)
}

// markChanged records that an object of a Project was changed or deleted, or that the Project is being deleted.
func (s *reconciledProjects) markChanged(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.done, name)
	delete(s.working, name)
}
