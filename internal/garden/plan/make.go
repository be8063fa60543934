package plan

import (
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/lifecycle"
	"github.com/espalier-dev/espalier/internal/garden/validation"
)

// definition is the name of the definition of Gardens.
const definition = "gardens.operator.gardener.cloud"

// Input is the input of Make.
type Input struct {
	// File is the manifest of the Garden.
	File []byte
	// Reconciler is the reconciler of the operator. Its Client reads the runtime cluster.
	Reconciler lifecycle.Reconciler
	Preflight  Preflight
	// Always makes the preflight run although the Garden has been reconciled before.
	Always bool
	// TakeOver adds the report on the take-over of a garden of other programs to the plan. The preflight then always runs.
	TakeOver bool
	// Virtual returns a client for the virtual cluster of that garden. Nil: the virtual cluster is not read.
	Virtual func(ctx context.Context) (client.Reader, error)
}

// Make returns the plan for the Garden in a file. An error says why there is no plan. For a refused Garden there is a plan, which says why.
func Make(ctx context.Context, in Input) (*Plan, error) {
	reader := in.Reconciler.Client
	served := &apiextensionsv1.CustomResourceDefinition{}
	if err := reader.Get(ctx, client.ObjectKey{Name: definition}, served); apierrors.IsNotFound(err) {
		return nil, errors.New("the cluster does not serve Gardens: apply deploy/garden-operator/crds, or choose another cluster")
	} else if err != nil {
		return nil, fmt.Errorf("read CustomResourceDefinition %s: %w", definition, err)
	}
	next, err := Decode(in.File, served)
	if err != nil {
		return nil, err
	}
	gardens, available := &operatorv1alpha1.GardenList{}, &operatorv1alpha1.ExtensionList{}
	for _, list := range []client.ObjectList{gardens, available} {
		if err = reader.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list Gardens and Extensions: %w", err)
		}
	}
	var live *operatorv1alpha1.Garden
	for i := range gardens.Items {
		if gardens.Items[i].Name == next.Name {
			live = &gardens.Items[i]
		}
	}
	p := &Plan{Garden: next.Name, New: live == nil}
	stored := asStored(live, next, in.Reconciler.Clock.Now())
	refused, warnings := judge(stored, live, len(gardens.Items), available.Items)
	var done *simulation
	if len(refused) == 0 {
		if p, done, err = compute(ctx, in.Reconciler, live, next); err != nil {
			return nil, err
		}
	}
	p.Refused, p.Warnings = append(refused, p.Refused...), warnings
	switch {
	case in.TakeOver && done == nil:
		p.Remarks = append(p.Remarks, "The plan does not say what the take-over needs, because the Garden itself is refused.")
	case in.TakeOver:
		if p.TakeOver, err = in.takeOver(ctx, p, done, stored); err != nil {
			return nil, err
		}
	}
	if in.Always || in.TakeOver || live == nil || live.Status.LastOperation == nil {
		p.Missing = in.Preflight.Run(ctx, next, p.images)
	}
	return p, nil
}

// judge returns why the webhook would deny a Garden, and its warnings.
func judge(
	stored, live *operatorv1alpha1.Garden, gardens int, available []operatorv1alpha1.Extension,
) (refused, warnings []string) {
	var errs field.ErrorList
	switch {
	case live != nil:
		errs = validation.Update(stored, live, available)
	case gardens > 0:
		return []string{validation.ErrNotAlone.Error()}, nil
	default:
		if err := validation.Finalizers(stored); err != nil {
			return []string{err.Error()}, nil
		}
		errs = validation.Create(stored, available)
	}
	for _, each := range errs {
		refused = append(refused, each.Error())
	}
	return refused, validation.Warnings(stored, available)
}
