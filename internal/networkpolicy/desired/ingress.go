package desired

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IngressController says which Pods carry what Ingresses let in.
type IngressController struct {
	// Namespace is where they run.
	Namespace string
	// Pods selects them; empty selects all of the namespace.
	Pods metav1.LabelSelector
}

// Backends lists the Services that the rules of an Ingress lead to, each once. They are in the Ingress's namespace.
func Backends(ingress *networkingv1.Ingress) []string {
	var names []string
	seen := map[string]bool{}
	for _, backend := range backends(ingress) {
		if !seen[backend.Name] {
			seen[backend.Name] = true
			names = append(names, backend.Name)
		}
	}
	return names
}

// backends leaves out the default backend and backends that are no Services.
func backends(ingress *networkingv1.Ingress) []networkingv1.IngressServiceBackend {
	var found []networkingv1.IngressServiceBackend
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

// backendPorts lists the ports of a Service's Pods that Ingresses of its namespace lead to, each once.
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

// backendPort finds the first port of the Service with the backend's name or number. A name that is missing on both
// sides is none.
func backendPort(service *corev1.Service, backend networkingv1.ServiceBackendPort) (port, bool) {
	for _, p := range service.Spec.Ports {
		if backend.Name != "" && backend.Name == p.Name || backend.Number != 0 && backend.Number == p.Port {
			return targetPort(p), true
		}
	}
	return port{}, false
}
