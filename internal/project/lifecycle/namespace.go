package lifecycle

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/conflict"
)

// deletionGrace is the grace period for the deletion of namespaces, in seconds.
const deletionGrace = 60

func namespaceMeta() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
}

// ensureNamespace creates the namespace of a Project, or adopts one that has the Project's labels. written is true if it wrote anything.
func (r *Reconciler) ensureNamespace(ctx context.Context, p *corev1beta1.Project, name string) (written bool, err error) {
	namespace := namespaceMeta()
	err = r.Client.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if err == nil {
		return r.adoptNamespace(ctx, p, namespace)
	}
	if !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("read Namespace %q: %w", name, err)
	}
	if refusal := checkName(name); refusal != nil {
		return false, refusal
	}
	err = r.Client.Create(ctx, newNamespace(p, name))
	if err == nil {
		log.FromContext(ctx).Info("Created namespace", "namespace", name)
		return true, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return false, fmt.Errorf("create Namespace %q: %w", name, err)
	}
	// The namespace is not in the cache yet. Read it, because it may belong to another Project.
	namespace = namespaceMeta()
	if err := r.Live.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return false, fmt.Errorf("read Namespace %q: %w", name, err)
	}
	return r.adoptNamespace(ctx, p, namespace)
}

// adoptNamespace makes an existing namespace the namespace of the Project. If it is that already, adoptNamespace repairs its metadata. The
// patch fails if the namespace has changed since it was read, so an outdated cache never leads to an adoption.
func (r *Reconciler) adoptNamespace(
	ctx context.Context, p *corev1beta1.Project, namespace *metav1.PartialObjectMetadata,
) (written bool, err error) {
	if err := check(p, &namespace.ObjectMeta); err != nil {
		return false, err
	}
	before := namespace.DeepCopy()
	adopt(p, &namespace.ObjectMeta)
	if equality.Semantic.DeepEqual(before.ObjectMeta, namespace.ObjectMeta) {
		return false, nil
	}
	if err := r.Client.Patch(ctx, namespace, conflict.MergeFrom(before)); err != nil {
		return false, fmt.Errorf("adopt Namespace %q: %w", namespace.Name, err)
	}
	log.FromContext(ctx).Info("Adopted namespace", "namespace", namespace.Name)
	return true, nil
}

// readAndDecideRelease reads the namespace of a Project that is being deleted, and decides whether to delete it.
func (r *Reconciler) readAndDecideRelease(
	ctx context.Context, p *corev1beta1.Project, name string,
) (*metav1.PartialObjectMetadata, release, error) {
	namespace := namespaceMeta()
	if r.Client.Get(ctx, client.ObjectKey{Name: name}, namespace) == nil && namespace.DeletionTimestamp != nil {
		return namespace, wait, nil // a deletion cannot be undone, so the cache is enough
	}
	// Every other result ends the Project or the namespace, so it needs a live read.
	namespace = namespaceMeta()
	err := r.Live.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		return namespace, gone, nil
	}
	if err != nil {
		return nil, leave, fmt.Errorf("read Namespace: %w", err)
	}
	return namespace, decideRelease(p, &namespace.ObjectMeta), nil
}

// releaseNamespace carries out the decision about a namespace. released is true if the finalizer of the Project can be removed.
func (r *Reconciler) releaseNamespace(
	ctx context.Context, p *corev1beta1.Project, namespace *metav1.PartialObjectMetadata, due release,
) (released bool, err error) {
	switch due {
	case leave, gone:
		return true, nil
	case wait:
		return false, nil
	case keep:
		before := namespace.DeepCopy()
		removeOwnership(p, &namespace.ObjectMeta)
		if err := r.Client.Patch(ctx, namespace, conflict.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("keep Namespace: %w", err)
		}
		log.FromContext(ctx).Info("Released namespace", "namespace", namespace.Name)
		return true, nil
	case remove:
		err := r.Client.Delete(ctx, namespace, client.PropagationPolicy(metav1.DeletePropagationForeground),
			client.GracePeriodSeconds(deletionGrace),
			client.Preconditions{UID: &namespace.UID, ResourceVersion: ptr.To(namespace.ResourceVersion)})
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("delete Namespace: %w", err)
		}
		log.FromContext(ctx).Info("Deleted namespace", "namespace", namespace.Name)
	}
	return false, nil
}
