// Package garden assembles the controllers and webhooks of garden-operator. It has no rules of its own.
package garden

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden/care"
	"github.com/espalier-dev/espalier/internal/garden/identity"
	"github.com/espalier-dev/espalier/internal/garden/lifecycle"
	"github.com/espalier-dev/espalier/internal/garden/skew"
	"github.com/espalier-dev/espalier/internal/process"
)

// parts are the values that the controllers and the webhooks of the operator share.
type parts struct {
	clusters *process.Clusters
	cfg      *config.OperatorConfiguration
	registry prometheus.Registerer
}

// Of several replicas, only the holder of the lease works. The lease has the name and namespace of the lease of Gardener's operator, so
// that the two operators exclude each other.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=garden,roleName=espalier-garden-operator-lease
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=gardener-operator-leader-election,verbs=get;update,namespace=garden,roleName=espalier-garden-operator-lease
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch,namespace=garden,roleName=espalier-garden-operator-lease

// remedy is the command that makes the kinds of the operator known.
const remedy = "kubectl apply -f deploy/garden-operator/crds"

// Needs returns the requirements of the controllers and webhooks for their connection.
func Needs(cfg *config.OperatorConfiguration) (process.Needs, error) {
	scheme, err := lifecycle.Scheme()
	if err != nil {
		return process.Needs{}, err
	}
	return process.Needs{
		Scheme: scheme,
		SourceCache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(), ByObject: care.Cache(deployable.GardenNamespace),
		},
		// Nothing works without these kinds.
		SourceAccess: []process.Requirement{{
			Kind: operatorv1alpha1.SchemeGroupVersion.WithKind("Garden"), Verbs: []string{"get", "list", "watch", "patch"}, Remedy: remedy,
		}, {
			Kind: operatorv1alpha1.SchemeGroupVersion.WithKind("Extension"), Verbs: []string{"list", "watch", "patch"}, Remedy: remedy,
		}},
		// Every replica serves webhooks, so the server starts with or without a lease.
		WebhookServer: server(cfg),
	}, nil
}

// Add checks that this version of the operator may act on the Garden, and adds all controllers and webhooks to the manager. The caller
// must have created the manager with the options that the function Needs returns.
func Add(lifetime context.Context, clusters *process.Clusters, cfg *config.OperatorConfiguration, registry prometheus.Registerer) error {
	return addParts(lifetime, &parts{clusters: clusters, cfg: cfg, registry: registry}, addWebhooks, addControllers)
}

func addParts(lifetime context.Context, p *parts, all ...func(*parts) error) error {
	if err := skew.Verify(lifetime, p.clusters.Source.GetAPIReader(), identity.GardenerVersion); err != nil {
		return err
	}
	for _, add := range all {
		if err := add(p); err != nil {
			return err
		}
	}
	return nil
}
