package applier

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/engine"
	"github.com/espalier-dev/espalier/internal/managedresource/state"
)

// isInSync reports whether a pass would have nothing to do for a set: neither the set nor its Secrets have changed since the last pass, and
// the watches show every object in its desired state. This comparison is made for every set in each SyncPeriod, so it avoids copies and
// allocations.
func (r *Reconciler) isInSync(ctx context.Context, name types.NamespacedName) bool {
	s := r.memory.InSync(name)
	if s == nil || r.AlwaysUpdate || r.AuditPeriod > 0 && !r.Clock.Now().Before(s.NextAudit) {
		return false
	}
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := r.Source.Get(ctx, name, mr, client.UnsafeDisableDeepCopy); err != nil || mr.ResourceVersion != s.InSyncVersion {
		return false
	}
	if refusal, err := r.refusal(ctx, mr.Namespace); err != nil || refusal != "" {
		return false
	}
	if !r.reader().IsCurrent(mr, s.Content.Versions) {
		return false
	}
	for _, each := range s.Objects {
		if seen, knowledge := r.lookup(each); knowledge != observe.Present || !isAsLeft(each, seen) {
			return false
		}
	}
	r.Metrics.saved.Add(float64(len(s.Objects)))
	return true
}

// isAsLeft reports whether an object has not changed since the last comparison or write. An unlabelled object only has to exist.
func isAsLeft(i *state.Object, seen observe.Object) bool {
	return i.Mapped && i.Known.Confirmed && i.Known.Due == engine.Leave && i.Known.Hash == i.Hash && seen.FirstMetadata == nil &&
		(i.Unlabelled || i.Known.Fingerprint == seen.Fingerprint)
}

// markInSync records that a pass found this version of the set in sync. It does not record that of sets that must be reconciled without an
// event, for example after a pause of repairs, and of sets with objects that no watch covers.
func markInSync(s *state.Set, resourceVersion string, result *outcome) {
	s.InSyncVersion = ""
	if result.nextCheck.IsZero() && !result.newKinds && result.unwatched == 0 && len(result.failures) == 0 && !s.AuditOwed {
		s.InSyncVersion = resourceVersion
	}
}
