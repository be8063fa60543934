package webhook

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/garden/extension/rules"
)

// validateExtension denies Extensions that break the rules of package rules, and the deletion of Extensions that are required.
func validateExtension(_ context.Context, _ client.Reader, request *review.Request) review.Response {
	extension, old := &operatorv1alpha1.Extension{}, &operatorv1alpha1.Extension{}
	if request.Operation == review.Update || request.Operation == review.Delete {
		if err := review.Decode(request.OldObject, old); err != nil {
			return review.Undecodable(err)
		}
	}
	if request.Operation == review.Create || request.Operation == review.Update {
		if err := request.Decode(extension); err != nil {
			return review.Undecodable(err)
		}
	}
	var errs field.ErrorList
	switch request.Operation {
	case review.Create:
		errs = rules.Validate(extension)
	case review.Update:
		// An Extension that rules forbid by now can still lose its finalizers.
		if !equality.Semantic.DeepEqual(extension.Spec, old.Spec) {
			errs = rules.ValidateUpdate(extension, old)
		}
	case review.Delete:
		if err := rules.Deletable(old); err != nil {
			return review.Denied(err.Error())
		}
	case review.Connect:
	}
	if len(errs) > 0 {
		kind := schema.GroupKind{Group: operatorv1alpha1.GroupName, Kind: "Extension"}
		return review.Refused(apierrors.NewInvalid(kind, extension.Name, errs))
	}
	return review.Allowed("")
}
