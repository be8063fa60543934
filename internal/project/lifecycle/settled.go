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

// settled remembers for which Projects everything is done, so that events about what this process has written itself, which
// come when some caches do not know of it yet, lead to no second attempt. Its own lock guards it; a restart costs one
// comparison of each Project with the caches.
type settled struct {
	mu sync.Mutex
	// done are by the name of the Project.
	done map[string]done
	// working are Projects that are being reconciled, and were not disturbed since that began.
	working map[string]bool
	// told is what was last said about an annotation of a Project that cannot be read.
	told map[string]string
	// extensions are the names of the objects of extension roles that a Project was last found to need.
	extensions map[string]sets.Set[string]
}

// done is what a Project was like when everything was done for it.
type done struct {
	uid        types.UID
	generation int64
	expiry     string
	until      time.Time // zero: for ever
}

func newSettled() *settled {
	return &settled{done: map[string]done{}, working: map[string]bool{}, told: map[string]string{}, extensions: map[string]sets.Set[string]{}}
}

// holds tells whether nothing has to be done for a Project, and until when; zero for ever. A Project whose finalizer somebody
// has taken needs it back: without it, the Project would go before its namespace is released.
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

// settle notes that everything is done, unless the Project was disturbed meanwhile.
func (s *settled) settle(p *corev1beta1.Project, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.working[p.Name] {
		s.done[p.Name] = done{uid: p.UID, generation: p.Generation, expiry: p.Annotations[expiry.Annotation], until: until}
	}
	delete(s.working, p.Name)
}

// tell notes problems of a Project, and tells whether they are others than before. After a restart all are.
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

// want notes which objects of extension roles a Project needs.
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

// wants tells whether a Project was last found to need an object of an extension role.
func (s *settled) wants(name, object string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.extensions[name].Has(object)
}

// forget drops what is known of a Project that is gone.
func (s *settled) forget(name string) {
	s.disturb(name)
	s.tell(name, nil)
	s.want(name, nil)
}

// disturb notes that something that a Project owns was changed or deleted, or that the Project is being deleted.
func (s *settled) disturb(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.done, name)
	delete(s.working, name)
}
