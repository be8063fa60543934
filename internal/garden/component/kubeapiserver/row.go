package kubeapiserver

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	policyv1 "k8s.io/api/policy/v1"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/shared"
)

// Component is kube-apiserver. It has steps of its own: a new encryption key takes two deployments.
var Component = component.Component{
	Name: component.KubeAPIServer, Plane: component.Virtual, Condition: operatorv1alpha1.VirtualComponentsHealthy,
	Own: component.Own{Deploy: true, Await: true},
	Deploy: component.Task{
		Name: "Deploying Kubernetes API Server", After: []string{component.Preconditions, component.Etcds},
		Does: "generates its credentials, and creates kube-apiserver. A new encryption key takes [two deployments](#encryption-keys)",
	},
	Await: component.Task{
		Name: "Waiting until Kubernetes API server rolled out",
		Does: "waits until its Pods are [available](#what-takes-time) and no old Pod is left. After a timeout, the error has the end of the " +
			"log of the newest Pod",
	},
	Destroy:     component.Task{Name: "Destroying Kubernetes API Server", After: []string{component.VirtualDestroyed}},
	Deployments: []string{Name},
	Leftovers: []component.Object{
		{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Name: Name},
		{GroupVersionKind: autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), Name: Name},
		{GroupVersionKind: shared.AutoscalerKind, Name: AutoscalerName},
		{GroupVersionKind: policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), Name: Name},
	},
}
