package exposure

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// ServiceComponent is the Service of kube-apiserver. It has a step of its own, which waits for the load balancer of the gateway.
var ServiceComponent = component.Component{
	Name: component.ExposedService, Plane: component.Virtual,
	Own: component.Own{Deploy: true},
	Deploy: component.Task{
		Name:  "Deploying and waiting for kube-apiserver service in the runtime cluster",
		After: []string{component.RuntimeDeployed, component.Preconditions},
		Does: "creates Service `virtual-garden-kube-apiserver`, and waits until Service `istio-ingressgateway` in " +
			"`virtual-garden-istio-ingress` has a load balancer",
	},
	Destroy:   component.Task{Name: "Destroying Kubernetes API Server service", After: []string{component.Routes}},
	Leftovers: []component.Object{{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Service"), Name: Name}},
}

// Objects of Istio lead connections from the gateway to kube-apiserver.
// +kubebuilder:rbac:groups=networking.istio.io,resources=destinationrules;gateways;virtualservices,verbs=get;watch;create;update;delete,namespace=garden,roleName=espalier-garden-operator-garden

// RoutesComponent is the objects of Istio for kube-apiserver.
var RoutesComponent = component.Component{
	Name: component.Routes, Plane: component.Virtual,
	Deploy: component.Task{
		Name: "Deploying Kubernetes API server service SNI", After: []string{component.ExposedService},
		Does: "creates the Gateway, the VirtualService and the DestinationRule by which the gateway passes connections for `api.<domain>` and " +
			"`gardener.<domain>` on",
	},
	Destroy: component.Task{Name: "Destroying Kubernetes API server service SNI", After: []string{component.VirtualDestroyed}},
	Objects: func(v values.Values, _ component.Secrets) (component.Objects, error) {
		return component.Objects{Direct: Routes(v)}, nil
	},
	Leftovers: []component.Object{istioObject("Gateway"), istioObject("VirtualService"), istioObject("DestinationRule")},
}

func istioObject(kind string) component.Object {
	return component.Object{
		GroupVersionKind: schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1beta1", Kind: kind}, Name: Name,
	}
}
