package applier

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
)

// claim is what the origin annotation of an object shows about other sets that hold it.
type claim int

const (
	// unclaimed means that no other set holds the object: the origin is that of this set, is missing, or names a set that does not hold
	// the object, because a user or another program changed it.
	unclaimed claim = iota
	// claimed means that the set in the origin holds the object too.
	claimed
	// unknown means that the controller cannot read the set in the origin. Writing the object is safe, because repeated repairs pause;
	// deleting it is not.
	unknown
	// former means that the origin names this set under a cluster ID that the set had before.
	former
	// doubtful means that the origin names a set of the same name under another cluster ID, and no record shows whether it is this set.
	doubtful
)

// claim evaluates the origin of an object.
//
// If a wrong result would delete the object, the reader must not be a cache: a cache may not show yet that another set holds the
// object.
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
	if slices.Contains(r.memory.subscribersOf(key), types.NamespacedName{Namespace: origin.Namespace, Name: origin.Name}) {
		return claimed
	}
	other := &resourcesv1alpha1.ManagedResource{}
	err = reader.Get(ctx, types.NamespacedName{Namespace: origin.Namespace, Name: origin.Name}, other)
	if apierrors.IsNotFound(err) {
		return unclaimed
	}
	if err != nil {
		return unknown // for example in a namespace that the controller may not read
	}
	for _, ref := range other.Status.Resources {
		if inventory.RefKey(ref) == key {
			return claimed
		}
	}
	return unclaimed
}

// foreignID evaluates an origin with another cluster ID than the present one. Another source cluster may have a set of the same name,
// so only the record in the annotations of the set proves that this is a former ID.
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

// isOwnOrigin reports whether an origin names the set in work, under the present cluster ID or a former one.
func (r *Reconciler) isOwnOrigin(p *pass, value string) bool {
	origin, err := resourcesv1alpha1.ParseOrigin(value)
	return value == p.origin || err == nil && origin.ClusterID != r.ClusterID && foreignID(p.mr, origin) == former
}

// clusterIDs returns the cluster IDs under which objects of a set may have been written, and whether they are recorded. Most
// controllers have no cluster ID, so a missing record means the empty ID.
func clusterIDs(mr *resourcesv1alpha1.ManagedResource) ([]string, bool) {
	value, recorded := mr.Annotations[resourcesv1alpha1.ClusterIDs]
	return strings.Split(value, clusterIDSeparator), recorded
}

// clusterIDSeparator cannot be part of a cluster ID, because it separates the ID from the rest of an origin.
const clusterIDSeparator = ":"

// recordClusterID adds an ID to the record of a set before the first object is written under it. A set that has objects and no
// record gets no record, because nothing shows under which IDs these objects were written.
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

// setClusterIDs writes the record of a set. If all objects of the set were written without an ID, it removes the record.
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

// recordOnlyID records that all objects of a set have the present cluster ID.
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
	r.memory.recordWrite(p.mr)
	return nil
}

// doubtfulOriginError explains to the user how to resolve a doubtful origin.
func doubtfulOriginError(origin string) error {
	return fmt.Errorf("its origin %q has another cluster ID than this controller, and whether it is a former ID of this ManagedResource is not recorded: "+
		"if it is, annotate the ManagedResource with %s (the former IDs, separated by %q); if not, annotate the object with %s=true",
		origin, resourcesv1alpha1.ClusterIDs, clusterIDSeparator, resourcesv1alpha1.KeepObject)
}

// yieldToOtherSet leaves an object to the set that holds it.
func (r *Reconciler) yieldToOtherSet(p *pass, i *item, claimant string, result *outcome) error {
	if i.known.claimant != claimant {
		r.Metrics.addClaimed()
		r.Events.objectClaimed(p.mr, i, claimant)
	}
	i.known.claimant = claimant
	result.mu.Lock()
	result.claimed++
	result.mu.Unlock()
	return &claimedError{claimant}
}

// claimedError means that another set holds an object. An immediate retry would not help.
type claimedError struct{ claimant string }

func (e *claimedError) Error() string {
	return fmt.Sprintf("it is held by ManagedResource %q, which wants it as well; remove it from one of the two", e.claimant)
}
