package object

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Service returns a Service for the Pods with the labels of the Owner.
func (o Owner) Service(name string, annotations map[string]string, ports ...corev1.ServicePort) *corev1.Service {
	meta := o.Meta(name)
	meta.Annotations = annotations
	return &corev1.Service{TypeMeta: Type("v1", "Service"), ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Selector: maps.Clone(o.Labels), Ports: ports,
	}}
}

// ServicePort returns a TCP port of a Service, and the port of the Pods behind it.
func ServicePort(name string, number, target int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: number, TargetPort: intstr.FromInt32(target), Protocol: corev1.ProtocolTCP}
}

// TrafficDistribution returns how a Service distributes connections: to endpoints in the zone of the client if routing is aware of the
// topology. Nil: to all endpoints.
func TrafficDistribution(v values.Values) *string {
	switch {
	case !v.TopologyAwareRouting:
		return nil
	case v.RuntimeKubernetes != nil && v.RuntimeKubernetes.AtLeast(version.MajorMinor(1, 34)):
		return ptr.To(corev1.ServiceTrafficDistributionPreferSameZone)
	}
	return ptr.To(corev1.ServiceTrafficDistributionPreferClose)
}

// ServiceHost returns the DNS name of a Service inside the cluster, without the domain of the cluster.
func ServiceHost(namespace, name string) string { return name + "." + namespace + ".svc" }

// DNSNames returns the DNS names of Services.
func DNSNames(namespace string, names ...string) []string {
	all := make([]string, 0, 4*len(names))
	for _, each := range names {
		inNamespace := each + "." + namespace
		all = append(all, each, inNamespace, inNamespace+".svc", inNamespace+".svc.cluster.local")
	}
	return all
}
