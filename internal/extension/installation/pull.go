package installation

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/extension/conditions"
)

// pull returns the chart of an installation, and records its digest in the status before anything is done with it.
func (r *Reconciler) pull(ctx context.Context, ci *corev1beta1.ControllerInstallation, d deployment) (chart.Pulled, error) {
	before, err := pinnedChart(ci.Status)
	if err != nil {
		return chart.Pulled{}, invalid(reasonChartInvalid, err)
	}
	pulled, err := r.fetch(ctx, d, before.digestFor(d.oci.reference))
	if err != nil {
		return chart.Pulled{}, err
	}
	if before.Digest == pulled.Digest && before.Reference == d.oci.reference {
		return pulled, nil
	}
	return pulled, conditions.Record(ctx, r.Garden, ci, func(status *corev1beta1.ControllerInstallationStatus) error {
		return pin(status, d.oci.reference, pulled.Digest)
	})
}

// fetch gets the raw chart, or the chart from the registry. The digest is "" if it must be resolved.
func (r *Reconciler) fetch(ctx context.Context, d deployment, digest string) (chart.Pulled, error) {
	if d.oci.reference == "" {
		pulled, err := r.Policy.Raw(d.rawChart)
		if err != nil {
			return pulled, invalid(reasonPolicy, err)
		}
		return pulled, nil
	}
	if kept, found := r.Charts.Get(d.oci.reference, digest); found {
		return kept, nil
	}
	source := chart.Source{Reference: d.oci.reference, Digest: digest}
	var err error
	if source.PullSecret, err = r.secretKey(ctx, d.oci.pullSecret, corev1.DockerConfigJsonKey); err != nil {
		return chart.Pulled{}, invalid(reasonNotPulled, err)
	}
	if source.CA, err = r.secretKey(ctx, d.oci.caBundle, "bundle.crt"); err != nil {
		return chart.Pulled{}, invalid(reasonNotPulled, err)
	}
	pulled, err := r.Policy.Pull(ctx, source)
	if err != nil {
		return pulled, invalid(reasonNotPulled, err)
	}
	r.Charts.Put(d.oci.reference, pulled)
	return pulled, nil
}

// secretKey returns a key of a Secret in the namespace garden of the garden; nil without a name.
func (r *Reconciler) secretKey(ctx context.Context, name, key string) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	secret := &corev1.Secret{}
	if err := r.GardenLive.Get(ctx, types.NamespacedName{Namespace: GardenNamespace, Name: name}, secret); err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	if len(secret.Data[key]) == 0 {
		return nil, errors.New("Secret " + name + " has no " + key)
	}
	return secret.Data[key], nil
}
