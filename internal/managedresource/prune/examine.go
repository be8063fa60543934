package prune

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/observe"
)

// sighting is the observed state of an object that exists.
type sighting struct {
	observe.Object
	// finalizers are the finalizers of an object that was read; a watch only shows whether there are any.
	finalizers []string
}

// look is a function that returns the state of an object, nil if the object does not exist.
type look func(context.Context, resourcesv1alpha1.ObjectReference, apply.Resource) (*sighting, error)

// read is the look that asks the API server.
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

// finding says whether an object must be deleted, according to its state.
type finding struct {
	sighting
	// gone says why the object needs no deletion, for example because it does not exist; empty otherwise.
	gone string
	// stays says why the object is kept in the target; empty if it may be deleted. surprising is true if the user who removed it from the set
	// may not expect that.
	stays      string
	surprising bool
}

const (
	goneAlready  = "it is gone already"
	unserved     = "it is gone: its kind is not served any more"
	neverWritten = "it was never written"
)

// examine checks whether an object of a served kind may be deleted: first by its name alone, then by keepReason. An error means that it is
// unknown whether the object may be deleted.
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
	found.stays, found.surprising, err = keepReason(p.gather(ctx, ref, resource, seen.Object))
	return found, err
}

func isData(ref resourcesv1alpha1.ObjectReference) bool {
	return ref.APIVersion == "v1" && (ref.Kind == "ConfigMap" || ref.Kind == "Secret")
}

// gather collects the facts for keepReason about an object that exists. It reads no other set if the object alone decides whether it is
// kept.
func (p *Pruner) gather(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource, seen observe.Object) facts {
	key := inventory.RefKey(ref)
	f := facts{
		Object: seen, isData: isData(ref),
		garbageCollector: p.GarbageCollector, ownOrigin: p.Owner.Origin(), mayWrite: p.Owner.Refusal(key, resource) == nil,
	}
	if !f.keptByAnnotation() && !f.keptForGarbageCollector() {
		f.claim = p.Owner.Claim(ctx, p.Sets, key, seen.Origin)
	}
	return f
}
