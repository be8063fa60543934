package webhook

import (
	"context"
	"fmt"
	"net/http"

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

// Shoots knows the Shoots of a namespace.
type Shoots interface {
	// AnyShoot asks the API server whether there is a Shoot in a namespace. It returns an error if that is unknown.
	AnyShoot(ctx context.Context, namespace string) (bool, error)
}

// NamespaceDeletion refuses to delete the namespaces of Projects: the controller deletes them with the Project, in the right
// order. It reads the Project, and whether there are Shoots, from the API server and not from a cache, and writes nothing.
// The selector of the webhook has only namespaces with the label of a project.
type NamespaceDeletion struct {
	// Live reads metadata of namespaces and Projects. It must not read from a cache.
	Live   client.Reader
	Shoots Shoots
}

// Handle implements review.Handler.
func (h *NamespaceDeletion) Handle(ctx context.Context, request *review.Request) review.Response {
	if request.SubResource != "" || request.Operation != review.Delete {
		return review.Allowed("")
	}
	refusal, err := h.judge(ctx, request)
	if err != nil {
		return review.Errored(http.StatusInternalServerError, err)
	}
	if refusal != "" {
		return review.Denied(refusal)
	}
	return review.Allowed("")
}

// judge returns why a namespace must not be deleted, or "".
func (h *NamespaceDeletion) judge(ctx context.Context, request *review.Request) (string, error) {
	namespace, found, err := h.namespace(ctx, request)
	if err != nil || !found {
		return "", err
	}
	project := &metav1.PartialObjectMetadata{}
	owner := namespace.Metadata.Labels[corev1beta1.LabelProjectName]
	if owner == "" {
		return "", nil
	}
	found, err = h.get(ctx, corev1beta1.SchemeGroupVersion.WithKind("Project"), owner, project)
	if err != nil || !found || namespace.Metadata.DeletionTimestamp != nil {
		return "", err
	}
	name := namespace.Metadata.Name
	if project.DeletionTimestamp == nil {
		return fmt.Sprintf("Namespace %q is forbidden: direct deletion of namespace %q is not permitted (you must delete the corresponding "+
			"project %q)", name, name, owner), nil
	}
	shoots, err := h.Shoots.AnyShoot(ctx, name)
	if err != nil {
		return "", fmt.Errorf("look for Shoots in namespace %q: %w", name, err)
	}
	if shoots {
		return fmt.Sprintf("Namespace %q is forbidden: deletion of namespace %q is not permitted (it still contains Shoots)", name, name), nil
	}
	return "", nil
}

// projectNamespace contains the fields of a namespace that NamespaceDeletion reads.
type projectNamespace struct {
	Metadata struct {
		Name              string            `json:"name"`
		Labels            map[string]string `json:"labels"`
		DeletionTimestamp *string           `json:"deletionTimestamp"`
	} `json:"metadata"`
}

// namespace returns the namespace to delete. Its error is NotFound if it no longer exists.
func (h *NamespaceDeletion) namespace(ctx context.Context, request *review.Request) (projectNamespace, bool, error) {
	read := projectNamespace{}
	if len(request.OldObject) > 0 {
		if err := review.Decode(request.OldObject, &read); err != nil {
			return read, false, fmt.Errorf("decode namespace: %w", err)
		}
		return read, true, nil
	}
	live := &metav1.PartialObjectMetadata{}
	found, err := h.get(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, request.Name, live)
	read.Metadata.Name, read.Metadata.Labels = live.Name, live.Labels
	if live.DeletionTimestamp != nil {
		read.Metadata.DeletionTimestamp = new(string)
	}
	return read, found, err
}

func (h *NamespaceDeletion) get(
	ctx context.Context, kind schema.GroupVersionKind, name string, into *metav1.PartialObjectMetadata,
) (bool, error) {
	into.SetGroupVersionKind(kind)
	err := h.Live.Get(ctx, client.ObjectKey{Name: name}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get %s %q: %w", kind.Kind, name, err)
	}
	return true, nil
}
