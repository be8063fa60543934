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

// settled remembers which Projects are fully reconciled. So events about this process's own writes, which arrive before all caches have
// them, cause no second reconciliation. It has its own lock; a restart costs one comparison of each Project with the caches.
type settled struct {
	mu sync.Mutex
	// done is keyed by the name of the Project.
	done map[string]done
	// working are Projects that are being reconciled, and whose objects have not changed since the reconciliation began.
	working map[string]bool
	// told is the last reported problem of a Project's annotation that cannot be parsed.
	told map[string]string
	// extensions are the names of the objects of extension roles that a Project needed when it was last reconciled.
	extensions map[string]sets.Set[string]
}

// done is the state of a Project when its reconciliation was finished.
type done struct {
	uid        types.UID
	generation int64
	expiry     string
	until      time.Time // zero: without end
}

func newSettled() *settled {
	return &settled{done: map[string]done{}, working: map[string]bool{}, told: map[string]string{}, extensions: map[string]sets.Set[string]{}}
}

// holds reports whether a Project needs nothing, and until when; zero means without end. A Project that has lost the finalizer needs it
// again: without it, the Project would be gone before its namespace is released.
func (s *settled) holds(p *corev1beta1.Project, now time.Time) (until time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.done[p.Name]
	if !ok || !slices.Contains(p.Finalizers, corev1beta1.GardenerFinalizer) || d.uid != p.UID || d.generation != p.Generation || d.expiry != p.Annotations[expiry.Annotation] {
		return time.Time{}, false
	}
	return d.until, d.until.IsZero() || now.Before(d.until)
}

func (s *settled) begin(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.done, name)
	s.working[name] = true
}

// settle records that the reconciliation is finished, unless disturb was called meanwhile.
func (s *settled) settle(p *corev1beta1.Project, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.working[p.Name] {
		s.done[p.Name] = done{uid: p.UID, generation: p.Generation, expiry: p.Annotations[expiry.Annotation], until: until}
	}
	delete(s.working, p.Name)
}

// tell records the problems of a Project, and reports whether they differ from the recorded ones. After a restart, nothing is recorded.
func (s *settled) tell(name string, problems []string) (others bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.Join(problems, "\n")
	others = s.told[name] != text
	if text == "" {
		delete(s.told, name)
	} else {
		s.told[name] = text
	}
	return others
}

// want records which objects of extension roles a Project needs.
func (s *settled) want(name string, desired []client.Object) {
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

// wants reports whether a Project needed an object of an extension role when it was last reconciled.
func (s *settled) wants(name, object string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.extensions[name].Has(object)
}

// forget drops the records of a deleted Project.
func (s *settled) forget(name string) {
	s.disturb(name)
	s.tell(name, nil)
	s.want(name, nil)
}

// disturb records that an object of a Project was changed or deleted, or that the Project is being deleted.
func (s *settled) disturb(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.done, name)
	delete(s.working, name)
}
