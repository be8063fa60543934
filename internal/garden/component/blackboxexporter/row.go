package blackboxexporter

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Component is blackbox_exporter. Nothing waits for it.
var Component = row()

func row() component.Component {
	row := observability.Component(Name, "blackbox-exporter", "creates ManagedResource `blackbox-exporter`",
		[]string{component.KubeAPIServer, component.PrometheusGarden},
		func(v values.Values, s component.Secrets) ([]client.Object, error) {
			return Objects(v, Authorities{
				Kubernetes: s.Bundles[rotation.KubernetesAuthority].Name, Gardener: s.Bundles[rotation.GardenerAuthority].Name,
			})
		})
	row.Needs = component.Needs{Bundles: []string{rotation.KubernetesAuthority, rotation.GardenerAuthority}}
	row.Requires = []string{component.PrometheusOperator, component.PrometheusGarden}
	return row
}
