package applier

import (
	"context"
	"fmt"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/apply/inventory"
)

// claimant names the other set that holds an object with the given origin, "" if none does: then the origin was
// merely tampered with.
func (r *Reconciler) claimant(ctx context.Context, p *pass, key inventory.Key, value string) string {
	origin, err := resourcesv1alpha1.ParseOrigin(value)
	if err != nil || origin.Namespace == p.mr.Namespace && origin.Name == p.mr.Name {
		return ""
	}
	if origin.ClusterID != r.ClusterID {
		return value // another source cluster, into which we cannot look
	}
	other := &resourcesv1alpha1.ManagedResource{}
	err = r.Source.Get(ctx, types.NamespacedName{Namespace: origin.Namespace, Name: origin.Name}, other)
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		return value // outside the namespaces that we may see
	}
	for _, ref := range other.Status.Resources {
		if inventory.RefKey(ref) == key {
			return value
		}
	}
	return ""
}

// lose leaves an object to the set that holds it.
func (r *Reconciler) lose(p *pass, i *item, claimant string, result *outcome) error {
	if i.known.claimant != claimant {
		r.Metrics.lost()
		r.Events.lost(p.mr, i, claimant)
	}
	i.known.claimant = claimant
	result.mu.Lock()
	result.lost++
	result.mu.Unlock()
	return &claimedError{claimant}
}

// claimedError tells that another set holds an object. Trying again at once would not help.
type claimedError struct{ claimant string }

func (e *claimedError) Error() string {
	return fmt.Sprintf("it is held by ManagedResource %q, which wants it as well; remove it from one of the two", e.claimant)
}
