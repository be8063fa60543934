package webhook

import (
	"context"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/garden/defaulting"
)

// setDefaults sets the defaults of package defaulting in Gardens that are created or updated. Everything else stays as it was sent, in the
// same form.
func setDefaults(_ context.Context, _ client.Reader, request *review.Request) review.Response {
	if request.Operation != review.Create && request.Operation != review.Update {
		return review.Allowed("")
	}
	sent, garden := map[string]any{}, &operatorv1alpha1.Garden{}
	if err := request.Decode(&sent); err != nil {
		return review.Undecodable(err)
	}
	if err := request.Decode(garden); err != nil {
		return review.Undecodable(err)
	}
	before, err := fields(garden)
	if err != nil {
		return review.Errored(http.StatusInternalServerError, err)
	}
	defaulting.Garden(garden)
	after, err := fields(garden)
	if err != nil {
		return review.Errored(http.StatusInternalServerError, err)
	}
	return review.Patched(difference(sent, before, after))
}
