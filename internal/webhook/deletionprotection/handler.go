// Package deletionprotection refuses to delete custom resources on which a whole cluster depends, and the definitions of their kinds. It
// allows the deletion if a user has confirmed it by an annotation on the object, such as confirmation.gardener.cloud/deletion=true.
//
// It writes nothing. It reads from the API server only for DELETECOLLECTION, and without a cache: it must see annotations that were set a
// moment ago. For a collection, API servers send one review for each object, without the name of the object, and a review does not contain
// the selectors of the user. So the handler allows the deletion of each object only if all objects of the kind in the namespace are
// confirmed. For definitions, all protected definitions must be confirmed.
//
// The webhook configuration selects definitions by the label gardener.cloud/deletion-protected=true.
package deletionprotection

import (
	"context"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

// label is the label of protected definitions.
const label = "gardener.cloud/deletion-protected"

// budget is the time limit for the list of a collection; API servers wait as long for the response.
const budget = 10 * time.Second

// To list a collection for the verdict about DELETECOLLECTION.
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list,roleName=espalier-webhook-server-source
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcds,verbs=list,roleName=espalier-webhook-server-source
// +kubebuilder:rbac:groups=extensions.gardener.cloud,resources=backupbuckets;backupentries;containerruntimes;controlplanes;dnsrecords;extensions;infrastructures;networks;operatingsystemconfigs;workers,verbs=list,roleName=espalier-webhook-server-source

// Handler judges deletions.
type Handler struct {
	// Source lists metadata in the source cluster. It must not read from a cache.
	Source client.Reader
}

// Handle implements review.Handler.
func (h *Handler) Handle(ctx context.Context, request *review.Request) review.Response {
	switch {
	case request.Operation != review.Delete:
		return review.Allowed("operation is not DELETE")
	case !protected(request.Resource):
		return review.Allowed("resource is not deletion-protected")
	case request.Name != "":
		return judgeObject(request)
	}
	return h.judgeCollection(ctx, request)
}

func (h *Handler) judgeCollection(ctx context.Context, request *review.Request) review.Response {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	list := &metav1.PartialObjectMetadataList{}
	kind := request.Kind
	kind.Kind += "List"
	list.SetGroupVersionKind(kind)
	var which client.ListOption = client.InNamespace(request.Namespace)
	if request.Resource.Group == definitions {
		which = client.MatchingLabels{label: "true"}
	}
	if err := h.Source.List(ctx, list, which); apierrors.IsNotFound(err) {
		return review.Allowed("object was not found")
	} else if err != nil {
		return review.Errored(http.StatusInternalServerError, err)
	}
	for i := range list.Items {
		if verdict := judge(list.Items[i].Annotations); !verdict.Allowed {
			return verdict
		}
	}
	return review.Allowed("")
}
