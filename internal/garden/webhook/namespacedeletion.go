package webhook

import (
	"context"
	"fmt"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/deployable"
)

// checkNamespaceDeletion denies the deletion of the namespace of the Garden while a Garden exists. Otherwise, Kubernetes would delete all
// components of the virtual cluster, and the data of the virtual cluster, in an arbitrary order.
func checkNamespaceDeletion(ctx context.Context, live client.Reader, request *review.Request) review.Response {
	if request.Operation != review.Delete || request.Name != deployable.GardenNamespace {
		return review.Allowed("")
	}
	found, err := exists(ctx, live)
	if err != nil {
		return review.Errored(http.StatusInternalServerError, err)
	}
	if found {
		return review.Denied(fmt.Sprintf(
			"deletion of namespace %q is forbidden while a Garden resource exists - delete it first before deleting the namespace", request.Name))
	}
	return review.Allowed("")
}
