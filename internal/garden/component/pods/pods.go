// Package pods returns parts of the specifications of Pods: containers, probes, requests and volumes.
package pods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// ContainerSecurityContext returns the security context of containers without privileges, whose root filesystem is read-only.
func ContainerSecurityContext() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// PodSecurityContext returns the security context of Pods that run as user 65532, which is the user of most images.
func PodSecurityContext() *corev1.PodSecurityContext {
	const user = 65532
	return &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](user), RunAsGroup: ptr.To[int64](user), FSGroup: ptr.To[int64](user),
	}
}

// HTTPGet returns the HTTP request of a probe. Without a scheme, the probe uses HTTP.
func HTTPGet(path string, port int32, scheme corev1.URIScheme) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(port), Scheme: scheme}}
}

// ServerProbe returns the probe of a program of a control plane, which sends requests by HTTPS.
func ServerProbe(path string, port int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  HTTPGet(path, port, corev1.URISchemeHTTPS),
		PeriodSeconds: 10, TimeoutSeconds: 15, FailureThreshold: 3, SuccessThreshold: 1,
	}
}

// startupAttempts is the number of startup probes, one each second. This is more than a program needs to start on a slow machine, and more
// than the two minutes for which programs wait for their caches before they end.
const startupAttempts = 150

// StartupProbe returns the startup probe for a container with a readiness probe. It sends the request of the readiness probe each second,
// so that the container is ready as soon as its program is. The kubelet uses no other probe until the startup probe succeeds, so other
// probes need no delay. The kubelet restarts a container whose program is not ready after startupAttempts.
func StartupProbe(readiness *corev1.Probe) *corev1.Probe {
	p := readiness.DeepCopy()
	p.PeriodSeconds, p.FailureThreshold = 1, startupAttempts
	return p
}

// FieldVariable returns an environment variable whose value is a field of the Pod.
func FieldVariable(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}

// ContainerPort returns a TCP port of a container.
func ContainerPort(name string, number int32) corev1.ContainerPort {
	return corev1.ContainerPort{Name: name, ContainerPort: number, Protocol: corev1.ProtocolTCP}
}

// Amounts returns a list with amounts of cpu and memory. It panics if a quantity is malformed.
func Amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// Requests returns requests for cpu and memory, without limits. It panics if a quantity is malformed.
func Requests(cpu, memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: Amounts(cpu, memory)}
}

// Memory returns a list with an amount of memory. It panics if the quantity is malformed.
func Memory(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(amount)}
}

// MinAllowed returns the least requests that a Garden demands for a component, nil if there are none.
func MinAllowed(settings *operatorv1alpha1.Autoscaling) corev1.ResourceList {
	if settings == nil {
		return nil
	}
	return settings.MinAllowed
}

// RequestsOfAtLeast returns requests for cpu and memory, which are at least minAllowed. It panics if a quantity is malformed.
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
	requirements.Limits = Memory(limit)
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

// AddSecret adds a read-only volume with a Secret, and its mount: see SecretSource.
func (m *Mounts) AddSecret(name, path, secret string, private bool) {
	m.Add(name, path, true, SecretSource(secret, private))
}

// ConfigMapSource returns a volume with a ConfigMap.
func ConfigMapSource(name string) corev1.VolumeSource {
	return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
}

// SecretSource returns a volume with a Secret. Files that are private are readable for the group of the process only.
func SecretSource(name string, private bool) corev1.VolumeSource {
	source := &corev1.SecretVolumeSource{SecretName: name}
	if private {
		source.DefaultMode = ptr.To[int32](0o640)
	}
	return corev1.VolumeSource{Secret: source}
}

// SecretProjection returns some keys of a Secret, for a volume that has several Secrets.
func SecretProjection(name string, keys ...string) corev1.VolumeProjection {
	items := make([]corev1.KeyToPath, 0, len(keys))
	for _, each := range keys {
		items = append(items, corev1.KeyToPath{Key: each, Path: each})
	}
	return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Items: items,
	}}
}
