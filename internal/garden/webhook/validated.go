package webhook

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/garden/validation"
)

// validate denies Gardens that break the rules of package validation, a second Garden, and unconfirmed deletions. When a Garden is created
// or its spec changes, it warns of all fields that are deprecated or have no effect.
func validate(ctx context.Context, live client.Reader, request *review.Request) review.Response {
	switch request.Operation {
	case review.Create:
		return create(ctx, live, request)
	case review.Update:
		return update(ctx, live, request)
	case review.Delete:
		return remove(request)
	case review.Connect:
	}
	return review.Allowed("")
}

func create(ctx context.Context, live client.Reader, request *review.Request) review.Response {
	garden := &operatorv1alpha1.Garden{}
	if err := request.Decode(garden); err != nil {
		return review.Undecodable(err)
	}
	found, err := exists(ctx, live)
	if err != nil {
		return review.Errored(http.StatusInternalServerError, err)
	}
	if found {
		return review.Errored(http.StatusBadRequest, validation.ErrNotAlone)
	}
	if failure := validation.Finalizers(garden); failure != nil {
		return review.Errored(http.StatusBadRequest, failure)
	}
	available, err := extensions(ctx, live)
	if err != nil {
		return review.Errored(http.StatusInternalServerError, err)
	}
	return judged(garden, validation.Create(garden, available), validation.Warnings(garden, available))
}

func update(ctx context.Context, live client.Reader, request *review.Request) review.Response {
	garden, old := &operatorv1alpha1.Garden{}, &operatorv1alpha1.Garden{}
	if err := request.Decode(garden); err != nil {
		return review.Undecodable(err)
	}
	if err := review.Decode(request.OldObject, old); err != nil {
		return review.Undecodable(err)
	}
	if equality.Semantic.DeepEqual(garden.Spec, old.Spec) {
		return judged(garden, validation.Update(garden, old, nil), nil)
	}
	available, err := extensions(ctx, live)
	if err != nil {
		return review.Errored(http.StatusInternalServerError, err)
	}
	return judged(garden, validation.Update(garden, old, available), validation.Warnings(garden, available))
}

func remove(request *review.Request) review.Response {
	garden := &operatorv1alpha1.Garden{}
	if err := review.Decode(request.OldObject, garden); err != nil {
		return review.Undecodable(err)
	}
	if err := validation.Delete(garden); err != nil {
		return review.Denied(err.Error())
	}
	return review.Allowed("")
}

func judged(garden *operatorv1alpha1.Garden, errs field.ErrorList, warnings []string) review.Response {
	response := review.Allowed("")
	if len(errs) > 0 {
		response = review.Refused(apierrors.NewInvalid(schema.GroupKind{Group: operatorv1alpha1.GroupName, Kind: "Garden"}, garden.Name, errs))
	}
	response.Warnings = warnings
	return response
}

// Gardens are listed, because there can be only one.
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=gardens,verbs=list

// exists reports whether there is a Garden.
func exists(ctx context.Context, live client.Reader) (bool, error) {
	gardens := &metav1.PartialObjectMetadataList{}
	gardens.SetGroupVersionKind(operatorv1alpha1.SchemeGroupVersion.WithKind("GardenList"))
	if err := live.List(ctx, gardens, client.Limit(1)); err != nil {
		return false, fmt.Errorf("list Gardens: %w", err)
	}
	return len(gardens.Items) > 0, nil
}

// Extensions are listed, because some fields of a Garden need one.
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=extensions,verbs=list

// extensions returns the Extensions of the runtime cluster.
func extensions(ctx context.Context, live client.Reader) ([]operatorv1alpha1.Extension, error) {
	list := &operatorv1alpha1.ExtensionList{}
	if err := live.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list Extensions: %w", err)
	}
	return list.Items, nil
}
