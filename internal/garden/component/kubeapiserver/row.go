package kubeapiserver

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	policyv1 "k8s.io/api/policy/v1"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
)

// kube-apiserver is scaled by an autoscaler.
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;watch;create;update;delete,namespace=garden,roleName=espalier-garden-operator-garden

// Component is kube-apiserver. It has steps of its own: a new encryption key takes two deployments.
var Component = component.Component{
	Name: component.KubeAPIServer, Plane: component.Virtual, Condition: operatorv1alpha1.VirtualComponentsHealthy,
	Own: component.Own{Deploy: true, Await: true}, Ignored: Ignored,
	Deploy: component.Task{
		Name: "Deploying Kubernetes API Server", After: []string{component.Preconditions, component.Etcds, component.EarlyExtensions},
		Does: "generates its credentials, and creates kube-apiserver. A new encryption key takes [two deployments](#encryption-keys)",
	},
	Await: component.Task{
		Name: "Waiting until Kubernetes API server rolled out",
		Does: "waits until its Pods are [available](#what-takes-time) and no old Pod is left. After a timeout, the error has the end of the " +
			"log of the newest Pod",
	},
	Destroy: component.Task{
		Name: "Destroying Kubernetes API Server", After: []string{component.VirtualDestroyed, component.LateExtensions},
	},
	Deployments: []string{Name},
	KeyUsers:    []component.Object{{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Name: Name}},
	Credentials: []component.Credential{
		{
			Name: ServiceAccountKeyName, Request: ServiceAccountKey, Rotation: rotation.ServiceAccountKey, Irreplaceable: true, Early: true,
			Purpose: "signs and verifies tokens of ServiceAccounts", Users: "kube-apiserver, kube-controller-manager",
			Restored: component.FromBackup,
		},
		{
			Name: EncryptionKeyName, Request: EncryptionKey, Rotation: rotation.ETCDEncryptionKey, Irreplaceable: true,
			Purpose: "encrypts resources of Kubernetes in etcd", Users: "kube-apiserver", Restored: component.FromBackup,
		},
		{
			Name: staticTokens, Request: StaticTokens, Rotation: rotation.CertificateAuthorities,
			Purpose: "authenticates probes, without any right", Users: "kubelets", Restored: component.FromBackup,
		},
		{
			Name: serverCertificate, Request: ServerCertificate, Early: true, Purpose: "serves the API of Kubernetes", Users: "kube-apiserver",
			Restored: component.GeneratedAgain,
		},
		{
			Name: aggregatorCertificate, Request: AggregatorCertificate, Early: true,
			Purpose: "authenticates requests that are passed on to gardener-apiserver", Users: "kube-apiserver",
			Restored: component.GeneratedAgain,
		},
	},
	Leftovers: []component.Object{
		{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Name: Name},
		{GroupVersionKind: autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), Name: Name},
		{GroupVersionKind: object.AutoscalerKind, Name: AutoscalerName},
		{GroupVersionKind: policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), Name: Name},
	},
}
