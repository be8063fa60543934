package prune

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
)

// sighting is an object that exists.
type sighting struct {
	observe.Object
	// finalizers are those of an object that was read; a watch only shows whether there are any.
	finalizers []string
}

// look returns the state of an object, nil if it does not exist.
type look func(context.Context, resourcesv1alpha1.ObjectReference, apply.Resource) (*sighting, error)

// read is a look at the API server.
func (p *Pruner) read(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource) (*sighting, error) {
	live, err := p.Target.GetMetadata(ctx, resource, ref.Namespace, ref.Name)
	if apierrors.IsNotFound(err) && !apply.IsUnserved(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &sighting{observe.Condense(live), live.Finalizers}, nil
}

// watch is a look at the watch. If the watch does not show the object, it is read: it may only have lost its label.
func (p *Pruner) watch(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource) (*sighting, error) {
	if seen, presence := p.Watcher.Lookup(resource.Kind.GroupKind(), ref.Namespace, ref.Name); presence == observe.Present {
		return &sighting{Object: seen}, nil
	}
	return p.read(ctx, ref, resource)
}

// finding is what the state of an object means for its deletion.
type finding struct {
	sighting
	// gone says why there is nothing left to do; empty otherwise.
	gone string
	// stays says why the object is kept in the target; empty if it may be deleted. Surprising is true if that may surprise the user who
	// removed it from the set.
	stays      string
	surprising bool
}

const (
	goneAlready  = "it is gone already"
	unserved     = "it is gone: its kind is not served any more"
	neverWritten = "it was never written"
)

// examine checks whether an object of a served kind may be deleted. An error means that this is unknown.
func (p *Pruner) examine(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource, look look) (finding, error) {
	if !apply.CanExist(ref.Namespace, ref.Name) {
		return finding{gone: neverWritten}, nil
	}
	if reason := p.Owner.Protection(inventory.RefKey(ref)); reason != "" {
		return finding{stays: reason, surprising: true}, nil
	}
	seen, err := look(ctx, ref, resource)
	if err != nil {
		return finding{}, err
	}
	if seen == nil {
		return finding{gone: goneAlready}, nil
	}
	found := finding{sighting: *seen}
	found.stays, found.surprising, err = p.keepReason(ctx, ref, resource, seen.Object)
	return found, err
}

// keepReason returns why an object is kept in the target, "" if it may be deleted, and whether that may surprise the user who removed it
// from the set. An error explains why both are unknown.
func (p *Pruner) keepReason(
	ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource, seen observe.Object,
) (reason string, surprising bool, err error) {
	if merge.Truthy(seen.KeepObject) {
		return "it has the annotation " + resourcesv1alpha1.KeepObject, false, nil
	}
	collectable := ref.APIVersion == "v1" && (ref.Kind == "ConfigMap" || ref.Kind == "Secret") && merge.Truthy(seen.GarbageCollectable)
	if collectable && p.GarbageCollector {
		return "it is the garbage collector's to delete", false, nil
	}
	written := seen.Origin == p.Owner.Origin()
	switch p.Owner.Claim(ctx, p.Sets, inventory.RefKey(ref), seen.Origin) {
	case ownership.Claimed:
		return fmt.Sprintf("ManagedResource %q holds it", seen.Origin), false, nil
	case ownership.Unknown:
		return fmt.Sprintf("its origin %q names a set that cannot be seen from here", seen.Origin), true, nil
	case ownership.Doubtful:
		if seen.WrittenByUs {
			return "", false, ownership.DoubtfulOriginError(seen.Origin)
		}
	case ownership.Former:
		written = seen.WrittenByUs
	case ownership.Unclaimed:
	}
	lostOrigin := seen.Origin == "" && seen.WrittenByUs && p.Owner.Refusal(inventory.RefKey(ref), resource) == nil
	if !written && !lostOrigin {
		return "nothing shows that it was ever written on behalf of this set", true, nil
	}
	return "", false, nil
}
