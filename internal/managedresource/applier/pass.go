package applier

import (
	"context"
	"encoding/json"
	"time"

	"github.com/cespare/xxhash/v2"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
	"github.com/espalier-dev/espalier/internal/managedresource/state"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
)

// pass is the state of one reconciliation of a set. It does not outlive that reconciliation.
type pass struct {
	mr   *resourcesv1alpha1.ManagedResource
	name types.NamespacedName
	set  *state.Set
	now  time.Time

	// user is the user with whose rights the pass reads and writes, "" for the controller. target sends requests with these rights.
	user   string
	target *apply.Target
	// view shows the watched objects of the set.
	view observe.View

	settings merge.Options
	owner    ownership.Owner
	// before contains status.resources as it was when the pass began, before announce changed it.
	before []resourcesv1alpha1.ObjectReference
	// index indexes before. references contains the entry of before for each object. Both are nil until compare is called.
	index      *inventory.Index
	references map[*state.Object]*resourcesv1alpha1.ObjectReference

	manifests *desired.Manifests
}

func (r *Planner) newPass(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) *pass {
	name := types.NamespacedName{Namespace: mr.Namespace, Name: mr.Name}
	set := r.Memory.Get(name)
	set.InSyncVersion = "" // until the end of the pass
	if set.InitialStatusTime == nil {
		set.InitialStatusTime = ptr.To(initialStatusTime(mr))
	}
	owner := ownership.Owner{
		Set: mr, ClusterID: r.ClusterID, SameCluster: r.SameCluster(ctx), OwnNamespace: r.OwnNamespace, Limits: r.Limits,
		Users: r.Memory.SubscribersOf,
	}
	user := r.Identity.User(mr)
	set.ApplyAs(user)
	return &pass{
		user: user, target: r.Target.As(user), view: r.view(mr),
		mr: mr, before: mr.Status.Resources, name: name, set: set, now: r.Clock.Now(), owner: owner,
		settings: desired.Settings(mr, owner.Origin(), *r.Config.ManagedByLabelValue),
	}
}

// view returns the view of the watched objects of a set.
func (r *Planner) view(mr *resourcesv1alpha1.ManagedResource) observe.View {
	return r.Watcher.As(r.Identity.Watcher(mr))
}

// initialStatusTime returns the time of the last write of the status before this process first read the set. It returns the zero time if
// drift was reported before: then no write under the name of this controller proves that an object is in its desired state.
func initialStatusTime(mr *resourcesv1alpha1.ManagedResource) time.Time {
	if hasCode(mr.Status.Conditions, codeDrifted) {
		return time.Time{}
	}
	return status.Written(mr)
}

// previous returns the entry for an object that the status contained when the pass began, nil for a new object.
func (p *pass) previous(i *state.Object) *resourcesv1alpha1.ObjectReference {
	p.compare()
	return p.references[i]
}

// obsolete returns the entries that the status contained when the pass began and that no object of the set needs any more.
func (p *pass) obsolete() []resourcesv1alpha1.ObjectReference {
	p.compare()
	return p.index.Obsolete()
}

// compare finds, for each object of the set, the entry in before. The methods previous and obsolete call compare. A reconciliation of a
// settled set calls neither of them if no object needs a request, and so saves this work.
func (p *pass) compare() {
	if p.index != nil {
		return
	}
	p.index = inventory.NewIndex(p.before, inventory.NewEquivalences(p.mr.Spec.Equivalences))
	p.references = make(map[*state.Object]*resourcesv1alpha1.ObjectReference, len(p.set.Objects))
	for _, each := range p.set.Objects {
		if previous, found := p.index.Lookup(each.Key); found {
			p.references[each] = &previous
		}
	}
	for _, each := range p.set.Content.Released {
		p.index.Lookup(each.Key)
	}
}

// referencesDigest returns a hash of status.resources, with which the controller recognizes them later without a copy.
func referencesDigest(refs []resourcesv1alpha1.ObjectReference) uint64 {
	hash := xxhash.New()
	encoder := json.NewEncoder(hash)
	for i := range refs {
		_ = encoder.Encode(&refs[i]) // neither a reference nor a hash can cause an error
	}
	return hash.Sum64()
}

// recorded reports whether the status says that the last completed apply was of the content that the set has now.
func (p *pass) recorded() bool {
	return p.mr.Status.ObservedGeneration == p.mr.Generation && p.mr.Status.SecretsDataChecksum != nil &&
		*p.mr.Status.SecretsDataChecksum == p.set.Content.Checksum
}

// isRecorded reports whether the status says that the last completed apply was of this content.
func isRecorded(mr *resourcesv1alpha1.ManagedResource, content *desired.Content) bool {
	checksum := mr.Status.SecretsDataChecksum
	return checksum != nil && *checksum == content.Checksum && mr.Status.ObservedGeneration == content.Generation
}

// unchanged reports whether the status says that the content which the set has now was applied completely.
func (p *pass) unchanged() bool {
	return p.recorded() && completed(p.mr.Status.Conditions) &&
		(p.set.References == nil || inventory.SameReferences(p.set.References, p.mr.Status.Resources))
}
