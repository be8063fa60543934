package desired

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// IngressController says which Pods forward the traffic of Ingresses.
type IngressController struct {
	// Namespace is the namespace of the Pods.
	Namespace string
	// Pods selects the Pods; an empty selector selects all Pods of the namespace.
	Pods metav1.LabelSelector
}

// Backends returns the names of the Services in the rules and the default backend of an Ingress. They are in the Ingress's namespace.
func Backends(ingress *networkingv1.Ingress) sets.Set[string] {
	names := sets.New[string]() // users write Ingresses, and one can have thousands of backends
	for _, backend := range backends(ingress) {
		names.Insert(backend.Name)
	}
	return names
}

// HasBackend reports whether a Service of the Ingress's namespace is a backend of the Ingress.
func HasBackend(ingress *networkingv1.Ingress, service string) bool {
	return slices.ContainsFunc(backends(ingress), func(b networkingv1.IngressServiceBackend) bool { return b.Name == service })
}

// backends returns the Services of the rules and the default backend. Backends of other kinds are left out.
func backends(ingress *networkingv1.Ingress) []networkingv1.IngressServiceBackend {
	var found []networkingv1.IngressServiceBackend
	if fallback := ingress.Spec.DefaultBackend; fallback != nil && fallback.Service != nil {
		found = append(found, *fallback.Service)
	}
	for _, rule := range ingress.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for _, path := range rule.HTTP.Paths {
			if path.Backend.Service != nil {
				found = append(found, *path.Backend.Service)
			}
		}
	}
	return found
}

// backendPorts returns the ports of a Service's Pods that Ingresses of its namespace use as backends, without duplicates.
func backendPorts(service *corev1.Service, ingresses []networkingv1.Ingress) []port {
	var ports []port
	seen := map[string]bool{}
	for i := range ingresses {
		for _, backend := range backends(&ingresses[i]) {
			if backend.Name != service.Name {
				continue
			}
			target, found := backendPort(service, backend.Port)
			if id := target.id(service.Name); found && !seen[id] {
				seen[id] = true
				ports = append(ports, target)
			}
		}
	}
	return ports
}

// backendPort returns the first port of the Service with the backend's name or number. Empty names do not match each other.
func backendPort(service *corev1.Service, backend networkingv1.ServiceBackendPort) (port, bool) {
	for _, p := range service.Spec.Ports {
		if backend.Name != "" && backend.Name == p.Name || backend.Number != 0 && backend.Number == p.Port {
			return targetPort(p), true
		}
	}
	return port{}, false
}
