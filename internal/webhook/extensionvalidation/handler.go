package extensionvalidation

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

// Handle implements review.Handler. It stops when the context ends, because then the API server no longer waits for the answer.
func (r *rules[Spec, Status]) Handle(ctx context.Context, request *review.Request) review.Response {
	now, before := &object[Spec, Status]{}, &object[Spec, Status]{}
	var found field.ErrorList
	switch request.Operation {
	case review.Create:
		if err := request.Decode(now); err != nil {
			return review.Undecodable(err)
		}
		if err := ctx.Err(); err != nil {
			return requestEnded(err)
		}
		found = r.validate(now, nil)
	case review.Update:
		if err := request.Decode(now); err != nil {
			return review.Undecodable(err)
		}
		if err := review.Decode(request.OldObject, before); err != nil {
			return review.Undecodable(err)
		}
		if err := ctx.Err(); err != nil {
			return requestEnded(err)
		}
		found = r.validate(now, before)
	case review.Delete:
		if err := review.Decode(request.OldObject, before); err != nil {
			return review.Undecodable(err)
		}
	case review.Connect:
	default:
		return review.Errored(http.StatusBadRequest, fmt.Errorf("unknown operation %q", request.Operation))
	}
	if err := ctx.Err(); err != nil {
		return requestEnded(err)
	}
	if len(found) == 0 {
		return review.Allowed("")
	}
	kind := r.kind
	if kind.Empty() {
		kind = schema.FromAPIVersionAndKind(now.APIVersion, now.Kind).GroupKind()
	}
	return review.Refused(apierrors.NewInvalid(kind, now.Metadata.Name, found))
}

// requestEnded returns the response to a request whose context ended before its object was validated.
func requestEnded(err error) review.Response {
	return review.Errored(http.StatusInternalServerError, fmt.Errorf("validate object: the request has ended before: %w", err))
}
