package shared

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/garden/values"
)

// FieldVariable returns an environment variable whose value is a field of the Pod.
func FieldVariable(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
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

// ContainerPort returns a TCP port of a container.
func ContainerPort(name string, number int32) corev1.ContainerPort {
	return corev1.ContainerPort{Name: name, ContainerPort: number, Protocol: corev1.ProtocolTCP}
}

// Requests returns requests for cpu and memory, without limits. It panics if a quantity is malformed.
func Requests(cpu, memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}}
}

// Memory returns a list with an amount of memory. It panics if the quantity is malformed.
func Memory(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(amount)}
}

// RequestsOfAtLeast returns requests for cpu and memory, which are at least those of minAllowed. It panics if a quantity is malformed.
func RequestsOfAtLeast(cpu, memory string, minAllowed corev1.ResourceList) corev1.ResourceRequirements {
	requirements := Requests(cpu, memory)
	for name, least := range minAllowed {
		if own, found := requirements.Requests[name]; !found || own.Cmp(least) < 0 {
			requirements.Requests[name] = least
		}
	}
	return requirements
}

// RequestsAndLimit returns requests for cpu and memory, and a limit for memory. It panics if a quantity is malformed.
func RequestsAndLimit(cpu, memory, limit string) corev1.ResourceRequirements {
	requirements := Requests(cpu, memory)
	requirements.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}
	return requirements
}

// Mounts are volumes with the paths of their mounts.
type Mounts struct {
	Volumes []corev1.Volume
	Paths   []corev1.VolumeMount
}

// Add adds a volume and its mount.
func (m *Mounts) Add(name, path string, readOnly bool, source corev1.VolumeSource) {
	m.Volumes = append(m.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	m.Paths = append(m.Paths, corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: readOnly})
}
