package ownership

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
)

// Claim says whether an object belongs to another set. It does if its origin annotation names the other set, and the status of the other
// set lists the object or this process knows that the other set contains the object. Claim also says whether the origin may mean this set
// under another cluster ID.
type Claim int

const (
	// Unclaimed means that the object belongs to no other set: the origin names this set, is missing or malformed, or names a set that does
	// not exist or does not list the object.
	Unclaimed Claim = iota
	// Claimed means that the object belongs to the other set that its origin names.
	Claimed
	// Unknown means that the controller cannot read the set that the origin names. This set may be in another cluster. A write of the object
	// is safe, because repeated repairs pause. A deletion of the object is not safe.
	Unknown
	// Former means that the origin names this set under a former cluster ID. The annotation ClusterIDs of the set shows that the controller
	// of the set had this cluster ID before.
	Former
	// Doubtful means that the origin names a set with the name of this set, under another cluster ID, and that no record shows whether the
	// origin means this set.
	Doubtful
)

// Claim evaluates value, the origin annotation of the object with the given key.
//
// If a wrong result would delete the object, the reader must not be a cache: a cache may not show yet that another set lists the object.
func (o Owner) Claim(ctx context.Context, reader client.Reader, key inventory.Key, value string) Claim {
	origin, err := resourcesv1alpha1.ParseOrigin(value)
	if err != nil {
		return Unclaimed
	}
	if origin.ClusterID != o.ClusterID {
		return foreignID(o.Set, origin)
	}
	if origin.Namespace == o.Set.Namespace && origin.Name == o.Set.Name {
		return Unclaimed
	}
	name := types.NamespacedName{Namespace: origin.Namespace, Name: origin.Name}
	if slices.Contains(o.Users(key), name) {
		return Claimed
	}
	other := &resourcesv1alpha1.ManagedResource{}
	err = reader.Get(ctx, name, other)
	if apierrors.IsNotFound(err) {
		return Unclaimed
	}
	if err != nil {
		return Unknown // for example in a namespace that the controller may not read
	}
	for _, ref := range other.Status.Resources {
		if inventory.RefKey(ref) == key {
			return Claimed
		}
	}
	return Unclaimed
}

// foreignID evaluates an origin whose cluster ID differs from the present cluster ID. Another source cluster may have a set of the same
// name. So only the annotation ClusterIDs of the set proves that the cluster ID in the origin is a former ID. If the annotation is
// missing, only the empty ID counts as former.
func foreignID(mr *resourcesv1alpha1.ManagedResource, origin resourcesv1alpha1.Origin) Claim {
	ids, recorded := clusterIDs(mr)
	switch {
	case origin.Namespace != mr.Namespace || origin.Name != mr.Name:
		return Unknown
	case slices.Contains(ids, origin.ClusterID):
		return Former
	case !recorded:
		return Doubtful
	}
	return Unknown
}

// IsOwnOrigin reports whether an origin names the set, under the present cluster ID or a former one.
func (o Owner) IsOwnOrigin(value string) bool {
	origin, err := resourcesv1alpha1.ParseOrigin(value)
	return value == o.Origin() || err == nil && origin.ClusterID != o.ClusterID && foreignID(o.Set, origin) == Former
}

// clusterIDs returns the cluster IDs under which objects of a set may have been written, and whether the annotation ClusterIDs records
// them. Most controllers have no cluster ID, so a missing annotation means the empty ID.
func clusterIDs(mr *resourcesv1alpha1.ManagedResource) ([]string, bool) {
	value, recorded := mr.Annotations[resourcesv1alpha1.ClusterIDs]
	return strings.Split(value, clusterIDSeparator), recorded
}

// clusterIDSeparator cannot be part of a cluster ID, because it separates the ID from the rest of an origin.
const clusterIDSeparator = ":"

// RecordClusterID adds an ID to the annotation ClusterIDs of a set, before the controller writes the first object under this ID. If the
// set is not new and has no such annotation, RecordClusterID adds none, because nothing shows under which IDs the objects of the set were
// written.
func RecordClusterID(mr *resourcesv1alpha1.ManagedResource, id string, isNew bool) (changed bool) {
	ids, recorded := clusterIDs(mr)
	switch {
	case slices.Contains(ids, id) || !recorded && !isNew:
		return false
	case recorded:
		SetClusterIDs(mr, append(ids, id)...)
	default:
		SetClusterIDs(mr, id)
	}
	return true
}

// SetClusterIDs records the cluster IDs under which objects of a set may have been written. If the only ID is the empty one, it removes the
// annotation.
func SetClusterIDs(mr *resourcesv1alpha1.ManagedResource, ids ...string) {
	if len(ids) == 1 && ids[0] == "" {
		delete(mr.Annotations, resourcesv1alpha1.ClusterIDs)
		return
	}
	metav1.SetMetaDataAnnotation(&mr.ObjectMeta, resourcesv1alpha1.ClusterIDs, strings.Join(ids, clusterIDSeparator))
}

// HasOnlyClusterID reports whether all objects of a set have the given cluster ID, according to the annotation ClusterIDs.
func HasOnlyClusterID(mr *resourcesv1alpha1.ManagedResource, id string) bool {
	ids, _ := clusterIDs(mr)
	return len(ids) == 1 && ids[0] == id
}

// DoubtfulOriginError explains to the user how to resolve a doubtful origin.
func DoubtfulOriginError(origin string) error {
	return fmt.Errorf("its origin %q has another cluster ID than this controller, and whether it is a former ID of this ManagedResource is "+
		"not recorded: "+
		"if it is, annotate the ManagedResource with %s (the former IDs, separated by %q); if not, annotate the object with %s=true",
		origin, resourcesv1alpha1.ClusterIDs, clusterIDSeparator, resourcesv1alpha1.KeepObject)
}

// ClaimedError means that an object belongs to another set. An immediate retry would not help.
type ClaimedError struct{ Claimant string }

func (e *ClaimedError) Error() string {
	return fmt.Sprintf("it is held by ManagedResource %q, which wants it as well; remove it from one of the two", e.Claimant)
}
