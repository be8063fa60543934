package istio

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// The namespace of istiod is prepared. It exists, because a Role of the operator is in it. The namespace of the gateway is created and
// deleted.
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=create
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=istio-system,verbs=get;update
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=virtual-garden-istio-ingress,verbs=get;watch;update;delete
// The ManagedResources of Istio are in the namespace of istiod.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;create;update;delete,namespace=istio-system,roleName=espalier-garden-operator-istio
// +kubebuilder:rbac:groups=resources.gardener.cloud,resources=managedresources,verbs=get;create;update;delete,namespace=istio-system,roleName=espalier-garden-operator-istio

// authoritySecret is the Secret in which istiod stores its certificate authority.
const authoritySecret = "istio-ca-secret"

// Component is Istio. A deletion keeps the namespace of istiod, because a Role of the operator is in this namespace: the namespace was
// created together with the operator.
var Component = component.Component{
	Name: "istio", Plane: component.Runtime, Condition: operatorv1alpha1.RuntimeComponentsHealthy,
	Deploy: component.Task{
		Name: "Deploying Istio", After: []string{component.ResourceManager},
		Does: "prepares namespaces `istio-system` and `virtual-garden-istio-ingress`, creates the ManagedResources `istio-system` and " +
			"`virtual-garden-istio` in the former, and waits until both are healthy",
	},
	Destroy: component.Task{Name: "Destroying Istio", After: []string{component.Unused}},
	Sets: []component.Set{
		{Name: ManagedResource, Namespace: Namespace}, {Name: GatewayManagedResource, Namespace: Namespace},
	},
	Ready: judgement.Ready,
	Objects: func(v values.Values, _ component.Secrets) (component.Objects, error) {
		istiod, err := Objects(v)
		gateway, failure := GatewayObjects(v)
		return component.Objects{Direct: Namespaces(v), Sets: [][]client.Object{istiod, gateway}}, errors.Join(err, failure)
	},
	Credentials: []component.Credential{{
		Name: authoritySecret, Secret: authoritySecret, Purpose: "signs certificates of istiod and of gateways", Users: "istiod, gateways",
		Lifetime: component.CertificateLifetime, Renewal: "by istiod", Restored: component.GeneratedAgain,
	}},
	Leftovers: []component.Object{
		{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Namespace"), Name: GatewayNamespace, Cluster: true},
	},
}
