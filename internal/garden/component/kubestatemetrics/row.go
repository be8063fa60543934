package kubestatemetrics

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Component is kube-state-metrics.
var Component = observability.Component(Name, "kube-state-metrics", "creates ManagedResource `kube-state-metrics-runtime`", nil,
	func(v values.Values, _ component.Secrets) ([]client.Object, error) { return Objects(v) })
