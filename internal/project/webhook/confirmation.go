package webhook

import (
	"context"
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/confirmation"
	"github.com/espalier-dev/espalier/internal/admission/review"
)

// checkConfirmation refuses to delete objects without a confirmation: an annotation such as confirmation.gardener.cloud/deletion=true. It
// reads the annotation in the object that the API server sends, so that the annotation counts as soon as it is stored. It sends no
// requests. For the deletion of a collection, API servers send one review per object: when checkConfirmation refuses one object, other
// objects may already be deleted.
//
// For this check it reads only annotations, so that an administrator can add other kinds, such as Shoots, to the rules of the webhook. It
// also refuses to delete Projects with the propagation policy Foreground or Orphan. With these policies, the garbage collector deletes the
// namespace, or removes the owner reference of the namespace, before the controller knows whether the namespace contains Shoots and
// whether it is kept.
func (Settings) checkConfirmation(_ context.Context, request *review.Request) review.Response {
	if len(request.OldObject) == 0 {
		return review.Errored(http.StatusInternalServerError, errors.New("no object found in admission request"))
	}
	found := metav1.PartialObjectMetadata{}
	if err := review.Decode(request.OldObject, &found); err != nil {
		return review.Undecodable(err)
	}
	if err := confirmation.Check(found.Annotations); err != nil {
		return review.Denied(err.Error())
	}
	if request.Kind.Group != corev1beta1.GroupName || request.Kind.Kind != "Project" {
		return review.Allowed("")
	}
	how := deleteOptions{}
	if len(request.Options) > 0 {
		if err := review.Decode(request.Options, &how); err != nil {
			return review.Undecodable(err)
		}
	}
	return respond(prematureDeletion(how, found.Finalizers), nil)
}
