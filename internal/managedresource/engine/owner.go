package engine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
)

// OrphanError means that an object is not created again: its manifest names an owner that does not exist, so Kubernetes would delete it.
type OrphanError struct {
	// Object and Owner name the two for users.
	Object, Owner string
}

func (e *OrphanError) Error() string {
	return fmt.Sprintf("object %q was deleted and is not created again: its owner %s does not exist, so Kubernetes would delete it again; "+
		"correct metadata.ownerReferences in the manifest", e.Object, e.Owner)
}

// isOwned reports whether the deletion of an object may have followed the deletion of an owner in its manifest.
func (o order) isOwned() bool { return o.Same() && len(o.manifest.GetOwnerReferences()) > 0 }

// goneOwner returns an owner of an object that does not exist, if Kubernetes deletes the object because none of its owners exists. It
// returns "" if that is unknown.
func (e *Engine) goneOwner(ctx context.Context, o order) string {
	if !o.isOwned() {
		return ""
	}
	var gone string
	for _, owner := range o.manifest.GetOwnerReferences() {
		if !e.isGone(ctx, o, owner) {
			return ""
		}
		kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
		gone = fmt.Sprintf("%q (uid %q)", status.Describe(kind, o.manifest.GetNamespace(), owner.Name), owner.UID)
	}
	return gone
}

// isGone reports whether an owner does not exist. If its kind is not served, Kubernetes does not know that either.
func (e *Engine) isGone(ctx context.Context, o order, owner metav1.OwnerReference) bool {
	resource, err := e.Target.Resource(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
	if err != nil || resource.Namespaced && !o.resource.Namespaced || !apply.CanExist(o.manifest.GetNamespace(), owner.Name) {
		return false
	}
	live, err := e.Target.GetMetadata(ctx, resource, o.manifest.GetNamespace(), owner.Name)
	if err != nil {
		return apierrors.IsNotFound(err) && !apply.IsUnserved(err)
	}
	return live.UID != owner.UID
}
