package extension

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/chart/placeholder"
	"github.com/espalier-dev/espalier/internal/garden/charts"
	"github.com/espalier-dev/espalier/internal/garden/extension/rules"
)

// chartSource is a chart of an Extension, with the inputs of its rendering.
type chartSource struct {
	name operatorv1alpha1.ChartName
	helm *operatorv1alpha1.ExtensionHelm
	// field is the path of helm in the Extension.
	field string
	// given are the values of the user, from field givenField of the Extension; their placeholders are replaced. own are the values of the
	// operator, which override given.
	given      *runtime.RawExtension
	givenField string
	own        map[string]any
	release    chart.Release
	policy     chart.Policy
}

// render returns a rendered chart, and the digest of its content for the status.
func (r *Reconciler) render(
	ctx context.Context, e *operatorv1alpha1.Extension, s chartSource,
) (charts.Rendered, operatorv1alpha1.ResolvedChart, error) {
	values, err := r.values(ctx, e, s)
	if err != nil {
		return charts.Rendered{}, operatorv1alpha1.ResolvedChart{}, err
	}
	made, err := r.Charts.Render(ctx, charts.Source{
		Helm: s.helm, Field: s.field, Digest: resolvedBefore(e, s), Values: values, Release: s.release, Policy: s.policy,
		Remedy: "change the chart, or espalier.garden.extensionCharts in the configuration of the operator",
	})
	return made, operatorv1alpha1.ResolvedChart{Name: s.name, Reference: made.Reference, Digest: made.Digest}, err
}

// resolvedBefore returns the digest to which the reference of a chart was resolved, or "".
func resolvedBefore(e *operatorv1alpha1.Extension, s chartSource) string {
	if s.helm.OCIRepository == nil {
		return ""
	}
	reference, _ := s.helm.OCIRepository.Reference()
	for _, each := range e.Status.Charts {
		if each.Name == s.name && each.Reference == reference {
			return each.Digest
		}
	}
	return ""
}

// values returns the values of a chart: first the values of the user, if there are any, then the values of the operator, which override
// them.
func (r *Reconciler) values(ctx context.Context, e *operatorv1alpha1.Extension, s chartSource) (chart.Values, error) {
	var all chart.Values
	if s.given != nil && len(s.given.Raw) > 0 {
		given, err := r.replaced(ctx, e, s)
		if err != nil {
			return nil, err
		}
		all = append(all, given)
	}
	own, err := encode(s.own)
	if err != nil {
		return nil, err
	}
	return append(all, own), nil
}

func (r *Reconciler) replaced(ctx context.Context, e *operatorv1alpha1.Extension, s chartSource) ([]byte, error) {
	names, err := placeholder.Names(s.given.Raw)
	if err != nil {
		return nil, charts.Mistakef("%s: %w", s.givenField, err)
	}
	used := map[string]bool{}
	for _, each := range names {
		used[each] = true
	}
	resources := placeholder.Resources{}
	for i, each := range rules.NamedReferences(e) {
		name := e.Spec.Deployment.Resources[i].Name
		if !used[name] {
			continue
		}
		if resources[name], err = r.Charts.Read(ctx, each); err != nil {
			return nil, err
		}
	}
	given, err := placeholder.Replace(s.given.Raw, resources)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.givenField, err)
	}
	return given, nil
}
