package applier

import (
	"context"
	"fmt"
	"slices"
	"strings"

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
	// former: it names this set under a cluster ID that the set had before.
	former
	// doubtful: it names a set of the same name under another cluster ID, and whether that is this set is not recorded.
	doubtful
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
		return foreignID(p.mr, origin)
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

// foreignID judges an origin with a cluster ID that is not ours. Another source cluster may well have a set of the same name,
// so only what is recorded with the set proves that the ID was once ours.
func foreignID(mr *resourcesv1alpha1.ManagedResource, origin resourcesv1alpha1.Origin) claim {
	ids, recorded := clusterIDs(mr)
	switch {
	case origin.Namespace != mr.Namespace || origin.Name != mr.Name:
		return unknown
	case slices.Contains(ids, origin.ClusterID):
		return former
	case !recorded:
		return doubtful
	}
	return unknown
}

// isOwnOrigin reports whether an origin names the set of a pass, under the present cluster ID or a former one.
func (r *Reconciler) isOwnOrigin(p *pass, value string) bool {
	origin, err := resourcesv1alpha1.ParseOrigin(value)
	return value == p.origin || err == nil && origin.ClusterID != r.ClusterID && foreignID(p.mr, origin) == former
}

// clusterIDs returns the cluster IDs under which objects of a set may have been written, and whether that is recorded. Most
// controllers have no cluster ID, so the absence of a record stands for none.
func clusterIDs(mr *resourcesv1alpha1.ManagedResource) ([]string, bool) {
	value, recorded := mr.Annotations[resourcesv1alpha1.ClusterIDs]
	return strings.Split(value, clusterIDSeparator), recorded
}

// clusterIDSeparator cannot be part of a cluster ID: origins could not be parsed.
const clusterIDSeparator = ":"

// recordClusterID adds an ID to those of a set before the first object is written under it. A set that has objects and no
// record gets none: nothing shows under which IDs they were written.
func recordClusterID(mr *resourcesv1alpha1.ManagedResource, id string, isNew bool) (changed bool) {
	ids, recorded := clusterIDs(mr)
	switch {
	case slices.Contains(ids, id) || !recorded && !isNew:
		return false
	case recorded:
		setClusterIDs(mr, append(ids, id)...)
	default:
		setClusterIDs(mr, id)
	}
	return true
}

// setClusterIDs writes the record of a set. A set whose objects were all written without an ID needs none.
func setClusterIDs(mr *resourcesv1alpha1.ManagedResource, ids ...string) {
	if len(ids) == 1 && ids[0] == "" {
		delete(mr.Annotations, resourcesv1alpha1.ClusterIDs)
		return
	}
	if mr.Annotations == nil {
		mr.Annotations = map[string]string{}
	}
	mr.Annotations[resourcesv1alpha1.ClusterIDs] = strings.Join(ids, clusterIDSeparator)
}

// recordOnlyID records that all objects of a set bear the present cluster ID.
func (r *Reconciler) recordOnlyID(ctx context.Context, p *pass) error {
	if ids, _ := clusterIDs(p.mr); len(ids) == 1 && ids[0] == r.ClusterID || len(p.set.faults) > 0 {
		return nil
	}
	next := p.mr.DeepCopy()
	setClusterIDs(next, r.ClusterID)
	if err := r.Source.Patch(ctx, next, client.MergeFromWithOptions(p.mr, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("record the cluster ID: %w", err)
	}
	p.mr = next
	r.memory.wrote(p.mr)
	return nil
}

// doubt says what has to be done about an object whose origin is doubtful.
func doubt(origin string) error {
	return fmt.Errorf("its origin %q has another cluster ID than this controller, and whether it is a former ID of this ManagedResource is not recorded: "+
		"if it is, annotate the ManagedResource with %s (the former IDs, separated by %q); if not, annotate the object with %s=true",
		origin, resourcesv1alpha1.ClusterIDs, clusterIDSeparator, resourcesv1alpha1.KeepObject)
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
