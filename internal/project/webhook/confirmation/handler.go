// Package confirmation refuses to delete Projects unless somebody annotated them before:
// confirmation.gardener.cloud/deletion=true. It judges by the object as the API server sends it, so an annotation counts as
// soon as it is stored; it reads and writes nothing. For a collection API servers ask about each object on its own, and
// those that were asked about earlier may be gone when one is refused.
//
// It looks at annotations alone: whoever adds other kinds, such as Shoots, to the rules of the webhook protects them too. Of
// Projects it refuses deletions in the foreground besides, and those that orphan dependents. With them the garbage collector
// deletes the namespace, or takes its owner from it, while the controller is still to find out whether there are Shoots in
// it, and whether it is kept.
package confirmation

import (
	"context"
	"errors"
	"net/http"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/confirmation"
	"github.com/espalier-dev/espalier/internal/admission/review"
)

const (
	// Name is the handler's in metrics and logs.
	Name = "deletion-confirmation"
	// Path is where it is served.
	Path = "/webhooks/validate-project-deletion"
)

// object is what is read of what is to be deleted.
type object struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
		Finalizers  []string          `json:"finalizers"`
	} `json:"metadata"`
}

// Handler judges deletions.
type Handler struct{}

// Handle implements review.Handler.
func (Handler) Handle(_ context.Context, request *review.Request) review.Response {
	if request.SubResource != "" || request.Operation != review.Delete {
		return review.Allowed("")
	}
	if len(request.OldObject) == 0 {
		return review.Errored(http.StatusInternalServerError, errors.New("no object found in admission request"))
	}
	found := object{}
	if err := review.Decode(request.OldObject, &found); err != nil {
		return review.Undecodable(err)
	}
	if err := confirmation.Check(found.Metadata.Annotations); err != nil {
		return review.Denied(err.Error())
	}
	if request.Kind.Group != corev1beta1.GroupName || request.Kind.Kind != "Project" {
		return review.Allowed("")
	}
	how := options{}
	if len(request.Options) > 0 {
		if err := review.Decode(request.Options, &how); err != nil {
			return review.Undecodable(err)
		}
	}
	if refusal := premature(how, found.Metadata.Finalizers); refusal != "" {
		return review.Denied(refusal)
	}
	return review.Allowed("")
}
