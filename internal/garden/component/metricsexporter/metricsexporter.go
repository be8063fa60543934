// Package metricsexporter returns the objects of gardener-metrics-exporter 0.45, which exposes the state of Seeds, Shoots and Projects as
// metrics.
package metricsexporter

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/rights"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
)

// Name is the name of the component, and of its objects.
const Name = "gardener-metrics-exporter"

const (
	role = "metrics-exporter"
	port = 2718
)

// Objects returns the objects in the runtime cluster. Kubeconfig is the name of the Secret with the generic token kubeconfig.
func Objects(v values.Values, kubeconfig string) (gardener.Objects, error) {
	image, err := v.ExternalImage(Name)
	if err != nil {
		return gardener.Objects{}, err
	}
	owner := gardener.Owner(v, role)
	return gardener.Objects{
		Direct: []client.Object{gardenaccess.Secret(v.Namespace, gardener.AccessPrefix+Name, Name)},
		Set: []client.Object{
			owner.Service(Name, network.From(network.GardenScrapeTargets, port), object.ServicePort("metrics", port, port)),
			deployment(owner, image, kubeconfig),
			observability.ServiceMonitor(v, observability.Garden, Name, map[string]any{
				"selector":  map[string]any{"matchLabels": map[string]any{"app": owner.Labels["app"], "role": role}},
				"endpoints": []any{map[string]any{"port": "metrics", "metricRelabelings": []any{observability.Keep("garden_.+")}}},
			}),
		},
	}, nil
}

// VirtualObjects returns the objects in the virtual cluster.
func VirtualObjects() []client.Object {
	owner := gardener.VirtualOwner(role)
	const clusterRole = "gardener.cloud:metrics-exporter"
	return []client.Object{
		owner.ClusterRole(clusterRole,
			rights.Rule(rights.CoreGroup, "projects;secretbindings;seeds;shoots", rights.Read()...),
			rights.Rule(rights.SecurityGroup, "credentialsbindings", rights.Read()...),
			rights.Rule(rights.SeedManagementGroup, "gardenlets;managedseeds", rights.Read()...),
		),
		owner.ClusterRoleBinding(clusterRole, clusterRole, Name),
	}
}

func deployment(owner object.Owner, image, kubeconfig string) *appsv1.Deployment {
	// The program is ready as soon as it can read the virtual cluster for its metrics.
	readiness := &corev1.Probe{ProbeHandler: pods.HTTPGet("/metrics", port, ""), PeriodSeconds: 15, TimeoutSeconds: 10}
	pod := corev1.PodSpec{
		PriorityClassName: system.Class100, AutomountServiceAccountToken: ptr.To(false),
		Containers: []corev1.Container{{
			Name: Name, Image: image,
			Command: []string{
				"/" + Name, "--kubeconfig=" + gardenaccess.KubeconfigPath, "--bind-address=0.0.0.0", fmt.Sprintf("--port=%d", port),
			},
			Ports: []corev1.ContainerPort{pods.ContainerPort("metrics", port)}, Resources: pods.Requests("100m", "128Mi"),
			StartupProbe:   pods.StartupProbe(readiness),
			LivenessProbe:  &corev1.Probe{ProbeHandler: pods.HTTPGet("/", port, ""), PeriodSeconds: 5},
			ReadinessProbe: readiness,
		}},
	}
	gardenaccess.MountKubeconfig(&pod, kubeconfig, gardener.AccessPrefix+Name)
	d := owner.Deployment(Name, 1, owner.Labels, network.VirtualClients(), pod)
	// A Pod with a former kubeconfig would stay until a new Pod is ready, and keep a rotation of certificate authorities from completing.
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	object.AnnotateReferences(d)
	return d
}
