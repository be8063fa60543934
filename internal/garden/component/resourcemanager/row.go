package resourcemanager

import (
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/crds"
)

// The resource manager is deployed, awaited and destroyed.
// +kubebuilder:rbac:groups="",resources=configmaps;serviceaccounts;services,verbs=get;watch;create;update;delete,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update;patch;delete,namespace=garden,roleName=espalier-garden-operator-garden
// netpol-controller makes policies in all namespaces that Services or its configuration select. The operator waits for some of them.
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=list;watch;delete
// The Deployments of the resource manager have PodDisruptionBudgets and VerticalPodAutoscalers, and its webhooks are awaited.
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;watch;create;update;delete,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=autoscaling.k8s.io,resources=verticalpodautoscalers,verbs=get;watch;create;update;delete,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=gardener-resource-manager,verbs=get;watch;delete
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=gardener-resource-manager,verbs=get;delete
// The resource manager has rights that the operator itself does not have, among them the rights of cluster-admin. Like definitions,
// ClusterRoles and their bindings are created by a server-side apply.
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=gardener-resource-manager-source;gardener-resource-manager-webhooks-source;gardener-resource-manager-webhooks-target;gardener-resource-manager-webhooks-target-selfmanaged;gardener-resource-manager-networkpolicies-target;gardener-resource-manager-tokens-target-invalidator,verbs=get;watch;create;patch;update;delete;escalate;bind
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=cluster-admin,verbs=bind
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,resourceNames=gardener-resource-manager-cluster-admin;gardener-resource-manager-source;gardener-resource-manager-webhooks-source;gardener-resource-manager-webhooks-target;gardener-resource-manager-webhooks-target-selfmanaged;gardener-resource-manager-networkpolicies-target;gardener-resource-manager-tokens-target-invalidator,verbs=get;watch;create;patch;update;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles,verbs=get;watch;create;update;delete;escalate;bind,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=get;watch;create;update;delete,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles,verbs=create;escalate,namespace=kube-system,roleName=espalier-garden-operator-cluster-identity
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles,resourceNames=gardener-resource-manager-cluster-identity,verbs=get;watch;update;delete;bind,namespace=kube-system,roleName=espalier-garden-operator-cluster-identity
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=create,namespace=kube-system,roleName=espalier-garden-operator-cluster-identity
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,resourceNames=gardener-resource-manager-cluster-identity,verbs=get;watch;update;delete,namespace=kube-system,roleName=espalier-garden-operator-cluster-identity

// Component is the resource manager of the runtime cluster, with the definition of ManagedResources. Package install does not deploy and
// destroy this component; an install step does both.
var Component = component.Component{
	Name: component.ResourceManager, Plane: component.Runtime, Definitions: crds.ManagedResources,
	Own: component.Own{Deploy: true, Destroy: true},
	Deploy: component.Task{
		Name:  "Deploying and waiting for gardener-resource-manager to be healthy",
		After: []string{component.ETCDDefinitions, component.VPADefinitions, component.HVPA, component.IstioDefinitions},
		Does: "deploys the definition of ManagedResources and four of Espalier's binaries, and waits for their Deployments, and until " +
			"MutatingWebhookConfiguration `gardener-resource-manager` has webhooks: they add tokens to Pods. After an upgrade it also waits " +
			"until netpol-controller has made the [NetworkPolicies](#networkpolicies) that replace those of earlier releases",
	},
	Destroy: component.Task{
		Name: "Destroying and waiting for gardener-resource-manager to be deleted", After: []string{component.NoManagedResources},
	},
	Credentials: []component.Credential{component.WebhookCertificate(WebhookServer, "serves webhooks of the runtime cluster")},
}

// The resource manager reads the identity of the runtime cluster, which the operator itself may not read.
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=virtual-garden-gardener-resource-manager-source;virtual-garden-gardener-resource-manager-tokens-source,verbs=get;watch;create;patch;update;delete;escalate;bind
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,resourceNames=virtual-garden-gardener-resource-manager-source;virtual-garden-gardener-resource-manager-tokens-source,verbs=get;watch;create;patch;update;delete

// VirtualComponent is the resource manager of the virtual cluster. It has a step of its own: it needs a certificate for its first token.
var VirtualComponent = component.Component{
	Name: component.VirtualResourceManager, Plane: component.Virtual, Condition: operatorv1alpha1.VirtualComponentsHealthy,
	Own: component.Own{Deploy: true, Await: true, Destroy: true},
	Deploy: component.Task{
		Name: "Deploying gardener-resource-manager for virtual garden", After: []string{component.KubeAPIServer},
		Does: "creates the [resource manager of the virtual cluster](#the-resource-manager-of-the-virtual-cluster)",
	},
	Await: component.Task{
		Name: "Waiting until gardener-resource-manager for virtual garden rolled out", Does: "waits until its Deployments are healthy",
	},
	Destroy: component.Task{
		Name: "Destroying gardener-resource-manager for virtual garden", After: []string{component.VirtualSetsDestroyed},
	},
	Sets: []component.Set{{Name: VirtualManagedResource, Virtual: true}}, Deployments: []string{VirtualName},
	Credentials: []component.Credential{
		{
			Name: BootstrapSecret, Temporary: true, Purpose: "authenticates the resource manager of the virtual cluster until it has a token",
			Users: "gardener-resource-manager", Lifetime: "10 minutes", Renewal: "generated when a token is missing, then deleted",
			Test: "TestCertificateForTheFirstTokenIsRenewed", Restored: component.GeneratedAgain,
		},
		component.Token(AccessSecret, "gardener-resource-manager", "24 hours"),
	},
}
