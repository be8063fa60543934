package webhook

import (
	"context"
	"fmt"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

// NamespaceDeletion denies the deletion of the namespace of the Garden while there is one: everything that the virtual cluster consists of
// would be deleted in no order, with its data.
type NamespaceDeletion struct {
	// Gardens reads metadata of Gardens. It must not read from a cache.
	Gardens client.Reader
}

// Handle implements review.Handler.
func (h *NamespaceDeletion) Handle(ctx context.Context, request *review.Request) review.Response {
	if request.SubResource != "" || request.Operation != review.Delete || request.Name != gardenNamespace {
		return review.Allowed("")
	}
	found, err := exists(ctx, h.Gardens)
	if err != nil {
		return review.Errored(http.StatusInternalServerError, err)
	}
	if found {
		return review.Denied(fmt.Sprintf(
			"deletion of namespace %q is forbidden while a Garden resource exists - delete it first before deleting the namespace", request.Name))
	}
	return review.Allowed("")
}
