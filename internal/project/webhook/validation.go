package webhook

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalform"
)

// validate refuses mistakes in Projects that the schema of their CRD cannot express: duplicate members and duplicate tolerations whose
// texts differ, and ServiceAccounts that cannot exist. It allows every update of a Project that is being deleted. It reads only the
// objects under review.
func (Settings) validate(_ context.Context, request *review.Request) review.Response {
	now, before, err := decodeBoth(request)
	if err != nil {
		return review.Undecodable(err)
	}
	if now.Metadata.DeletionTimestamp != nil {
		return review.Allowed("") // the change gives no rights any more, and the deletion must not be blocked
	}
	found := findMistakes(now.Spec, before.Spec)
	if len(found) == 0 {
		return review.Allowed("")
	}
	kind := schema.GroupKind{Group: corev1beta1.GroupName, Kind: "Project"}
	return review.Refused(apierrors.NewInvalid(kind, now.Metadata.Name, found))
}

// decodeBoth decodes the Project in a request, and the one before an update, which is empty at creation.
func decodeBoth(request *review.Request) (now, before normalform.Project, err error) {
	if err = request.Decode(&now); err == nil && request.Operation == review.Update {
		err = review.Decode(request.OldObject, &before)
	}
	return now, before, err
}
