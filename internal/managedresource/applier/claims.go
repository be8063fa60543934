package applier

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/apply/inventory"
)

// claim is what an origin annotation says about who else holds an object.
type claim int

const (
	// unclaimed: the origin is ours, missing, or names a set that does not hold the object. It was tampered with.
	unclaimed claim = iota
	// claimed: the set that it names holds the object too.
	claimed
	// unknown: it names a set that we cannot see. To write is safe, since fights pause; to delete is not.
	unknown
)

// claim judges the origin of an object.
//
// Where a wrong answer would delete the object, the reader must be a live one: a cache may not show yet that a set has
// taken it.
func (r *Reconciler) claim(ctx context.Context, reader client.Reader, p *pass, key inventory.Key, value string) claim {
	origin, err := resourcesv1alpha1.ParseOrigin(value)
	if err != nil {
		return unclaimed
	}
	if origin.ClusterID != r.ClusterID {
		return unknown // another source cluster may well have a set of the same name
	}
	if origin.Namespace == p.mr.Namespace && origin.Name == p.mr.Name {
		return unclaimed
	}
	if slices.Contains(r.memory.users(key), types.NamespacedName{Namespace: origin.Namespace, Name: origin.Name}) {
		return claimed
	}
	other := &resourcesv1alpha1.ManagedResource{}
	err = reader.Get(ctx, types.NamespacedName{Namespace: origin.Namespace, Name: origin.Name}, other)
	if apierrors.IsNotFound(err) {
		return unclaimed
	}
	if err != nil {
		return unknown // outside the namespaces that we may see
	}
	for _, ref := range other.Status.Resources {
		if inventory.RefKey(ref) == key {
			return claimed
		}
	}
	return unclaimed
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
