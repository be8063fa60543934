package kubecontrollermanager

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
)

// Component is kube-controller-manager. An install step deploys the component, because its Deployment must wait until its token has been
// requested.
//
// A deletion destroys kube-controller-manager after the namespaces of the virtual cluster, because kube-controller-manager deletes the
// objects in these namespaces.
var Component = component.Component{
	Name: Container, Plane: component.Virtual, Condition: operatorv1alpha1.VirtualComponentsHealthy,
	Own: component.Own{Deploy: true},
	Deploy: component.Task{
		Name: "Deploying Kubernetes Controller Manager", After: []string{component.KubeAPIServer},
		Does: "creates ManagedResource `shoot-core-kube-controller-manager`, and kube-controller-manager, for the first time when its token " +
			"has been requested; waits until it is rolled out",
	},
	Destroy: component.Task{Name: "Destroying Kubernetes Controller Manager Server", After: []string{component.VirtualSystem}},
	Sets:    []component.Set{{Name: ManagedResource, Virtual: true, KeepsObjects: true}}, Deployments: []string{Name},
	KeyUsers: []component.Object{{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Name: Name}},
	Credentials: []component.Credential{{
		Name: serverCertificate, Request: ServerCertificate, Early: true, Purpose: "serves health and metrics", Users: "kube-controller-manager",
		Restored: component.GeneratedAgain,
	}},
	Leftovers: []component.Object{
		{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Name: Name},
		{GroupVersionKind: object.AutoscalerKind, Name: AutoscalerName},
		{GroupVersionKind: policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), Name: Name},
		{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Service"), Name: Name},
	},
	AccessSecrets: []string{AccessSecret},
}
