package webhook

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/review"
)

// The namespace is read if the request does not contain it. The Project is always read.
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=core.gardener.cloud,resources=projects,verbs=get

// checkNamespaceDeletion refuses to delete the namespace of a Project that is not being deleted: the controller deletes the namespace with
// the Project, in the right order. If the Project is being deleted, checkNamespaceDeletion refuses while the namespace contains Shoots. It
// reads the Project, and whether there are Shoots, from the API server and not from a cache, and writes nothing. The selector of the
// webhook selects only namespaces that have the label of a project.
func (s Settings) checkNamespaceDeletion(ctx context.Context, request *review.Request) review.Response {
	return respond(s.namespaceDeletionRefusal(ctx, request))
}

// namespaceDeletionRefusal returns why a namespace must not be deleted, or "".
func (s Settings) namespaceDeletionRefusal(ctx context.Context, request *review.Request) (string, error) {
	namespace, err := s.namespace(ctx, request)
	if err != nil || namespace == nil {
		return "", err
	}
	owner := namespace.Labels[corev1beta1.LabelProjectName]
	if owner == "" {
		return "", nil
	}
	project, err := s.get(ctx, corev1beta1.SchemeGroupVersion.WithKind("Project"), owner)
	if err != nil || project == nil || namespace.DeletionTimestamp != nil {
		return "", err
	}
	name := namespace.Name
	if project.DeletionTimestamp == nil {
		return fmt.Sprintf("Namespace %q is forbidden: direct deletion of namespace %q is not permitted (you must delete the corresponding "+
			"project %q)", name, name, owner), nil
	}
	shoots, err := s.AnyShoot(ctx, name)
	if err != nil {
		return "", fmt.Errorf("look for Shoots in namespace %q: %w", name, err)
	}
	if shoots {
		return fmt.Sprintf("Namespace %q is forbidden: deletion of namespace %q is not permitted (it still contains Shoots)", name, name), nil
	}
	return "", nil
}

// namespace returns the metadata of the namespace to delete; nil if it no longer exists.
func (s Settings) namespace(ctx context.Context, request *review.Request) (*metav1.PartialObjectMetadata, error) {
	if len(request.OldObject) == 0 {
		return s.get(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, request.Name)
	}
	sent := &metav1.PartialObjectMetadata{}
	if err := review.Decode(request.OldObject, sent); err != nil {
		return nil, fmt.Errorf("decode namespace: %w", err)
	}
	return sent, nil
}

// get returns the metadata of an object; nil if it does not exist.
func (s Settings) get(ctx context.Context, kind schema.GroupVersionKind, name string) (*metav1.PartialObjectMetadata, error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(kind)
	err := s.Live.Get(ctx, client.ObjectKey{Name: name}, found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %q: %w", kind.Kind, name, err)
	}
	return found, nil
}
