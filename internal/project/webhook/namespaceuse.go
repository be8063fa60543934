package webhook

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalform"
)

// The Projects of a namespace are listed.
// +kubebuilder:rbac:groups=core.gardener.cloud,resources=projects,verbs=list

// checkNamespaceUse refuses a Project for a namespace that another Project has already. It sends a request to the API server, and does not
// use a cache, each time a Project gets its namespace: at creation, or later by an update. It writes nothing.
//
// Two requests at the same moment can both pass. The namespace then belongs to the Project whose name is in the labels of the namespace.
// The other Project fails, reports this in its status, and never changes the namespace.
func (s Settings) checkNamespaceUse(ctx context.Context, request *review.Request) review.Response {
	now, before, err := decodeBoth(request)
	if err != nil {
		return review.Undecodable(err)
	}
	namespace := namespaceOf(now)
	if namespace == "" || namespace == namespaceOf(before) {
		return review.Allowed("")
	}
	return respond(s.usedNamespaceRefusal(ctx, namespace, now.Metadata.Name))
}

func namespaceOf(project normalform.Project) string {
	if project.Spec == nil {
		return ""
	}
	return project.Spec.Namespace
}

// usedNamespaceRefusal returns why a Project must not have a namespace, or "". It lists at most two Projects, because one may be the
// Project itself.
func (s Settings) usedNamespaceRefusal(ctx context.Context, namespace, name string) (string, error) {
	const enough = 2
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1beta1.SchemeGroupVersion.WithKind("ProjectList"))
	if err := s.Live.List(ctx, list, client.MatchingFields{"spec.namespace": namespace}, client.Limit(enough)); err != nil {
		return "", fmt.Errorf("list Projects of namespace %q: %w", excerpt.Quoted(namespace), err)
	}
	for i := range list.Items {
		if list.Items[i].Name != name {
			return fmt.Sprintf("namespace %q is already used by another project", namespace), nil
		}
	}
	return "", nil
}
