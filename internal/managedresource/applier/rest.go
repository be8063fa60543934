package applier

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/observe"
)

// atRest reports whether a pass would find nothing to do for a set: neither the set nor its Secrets have changed since the last
// pass, and the watches show every object as we left it. This is the comparison that is made in each SyncPeriod, so it
// copies and allocates next to nothing.
func (r *Reconciler) atRest(ctx context.Context, name types.NamespacedName) bool {
	s := r.memory.resting(name)
	if s == nil || r.AlwaysUpdate || r.AuditPeriod > 0 && !r.Clock.Now().Before(s.nextAudit) {
		return false
	}
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := r.Source.Get(ctx, name, mr, client.UnsafeDisableDeepCopy); err != nil || mr.ResourceVersion != s.rested {
		return false
	}
	if refusal, err := r.refusal(ctx, mr.Namespace); err != nil || refusal != "" {
		return false
	}
	if !r.secretsCurrent(&pass{mr: mr, set: s}) {
		return false
	}
	for _, each := range s.items {
		if seen, knowledge := r.lookup(each); knowledge != observe.Present || !each.asLeft(seen) {
			return false
		}
	}
	r.Metrics.saved(len(s.items))
	return true
}

// asLeft reports whether an object is seen as our last look or write left it. An unlabelled one only has to be there.
func (i *item) asLeft(seen observe.Object) bool {
	return i.mapped && i.known.confirmed && i.known.due == leave && i.known.hash == i.hash && seen.Raw == nil && (i.unlabelled || i.known.fingerprint == seen.Fingerprint)
}

// rest notes that a pass found the set as it is now in sync. Other sets are compared in full: those that have to be looked at
// for reasons of their own, such as a fight, and those with objects that no watch covers.
func (s *set) rest(resourceVersion string, result *outcome) {
	s.rested = ""
	if result.again.IsZero() && !result.newKinds && result.unwatched == 0 && len(result.failures) == 0 && !s.auditOwed {
		s.rested = resourceVersion
	}
}

// resting returns a set that the last pass found in sync, nil if that does not hold or something was reported since.
func (m *memory) resting(name types.NamespacedName) *set {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.sets[name]
	if _, concluded := m.concluded[name]; known == nil || known.rested == "" || known.auditOwed || !concluded || len(m.dirty[name]) > 0 {
		return nil
	}
	return known
}
