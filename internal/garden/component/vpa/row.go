package vpa

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/values"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// Component is the vertical pod autoscaler.
var Component = component.Component{
	Name: "vpa", Plane: component.Runtime, Condition: operatorv1alpha1.RuntimeComponentsHealthy,
	Unless: values.Values.WithoutVPA, Ignored: UnknownGates,
	Deploy: component.Task{
		Name:  "Deploying Kubernetes vertical pod autoscaler",
		After: []string{component.ResourceManager, component.MonitoringDefinitions, component.OpenTelemetryDefinitions},
		Does: "generates the certificate of its webhook, and creates ManagedResource `vpa`; deletes it if the Garden disables the vertical " +
			"pod autoscaler",
	},
	Destroy: component.Task{
		Name:  "Destroying Kubernetes vertical pod autoscaler",
		After: []string{component.Etcds, component.ExposedService, component.KubeAPIServer},
	},
	Sets: []component.Set{{Name: ManagedResource}},
	Credentials: []component.Credential{{
		Name: serverSecret, Request: ServerCertificate, Temporary: true, Purpose: "serves the webhook for Pods",
		Users: "vpa-admission-controller", Restored: component.GeneratedAgain,
	}},
	Needs: component.Needs{Bundles: []string{Authority}},
	Objects: func(v values.Values, s component.Secrets) (component.Objects, error) {
		authority := s.Bundles[Authority]
		objects, err := Objects(v, Credentials{
			Authority: authority.Name, Bundle: authority.Data[secretconfig.DataKeyCertificateBundle], Server: s.Generated[serverSecret].Name,
		})
		return component.Objects{Sets: [][]client.Object{objects}}, err
	},
}
