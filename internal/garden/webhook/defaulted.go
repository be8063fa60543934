package webhook

import (
	"context"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/garden/defaulting"
	"github.com/espalier-dev/espalier/internal/garden/extension/rules"
)

// setDefaults sets the defaults of package defaulting in Gardens that are created or updated. Everything else stays as it was sent, in the
// same form.
func setDefaults(_ context.Context, _ client.Reader, request *review.Request) review.Response {
	return defaulted(request, &operatorv1alpha1.Garden{}, defaulting.Garden)
}

// setExtensionDefaults sets the defaults of package rules in Extensions that are created or updated.
func setExtensionDefaults(_ context.Context, _ client.Reader, request *review.Request) review.Response {
	return defaulted(request, &operatorv1alpha1.Extension{}, rules.Default)
}

// defaulted decodes the object of a request into a typed object, and returns the changes that a function makes to it.
func defaulted[T any](request *review.Request, typed T, change func(T)) review.Response {
	if request.Operation != review.Create && request.Operation != review.Update {
		return review.Allowed("")
	}
	sent := map[string]any{}
	if err := request.Decode(&sent); err != nil {
		return review.Undecodable(err)
	}
	if err := request.Decode(typed); err != nil {
		return review.Undecodable(err)
	}
	before, err := fields(typed)
	if err != nil {
		return review.Errored(http.StatusInternalServerError, err)
	}
	change(typed)
	after, err := fields(typed)
	if err != nil {
		return review.Errored(http.StatusInternalServerError, err)
	}
	return review.Patched(difference(sent, before, after))
}
