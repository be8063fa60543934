// Package apiserver contains the common parts of kube-apiserver and gardener-apiserver: arguments, configuration files with the objects
// that contain them, references of the Garden to Secrets and ConfigMaps, and the order of encryption keys.
//
// The configuration files are in immutable ConfigMaps and Secrets, which are named after their content, so that a change rolls out. The
// garbage collector of the resource manager deletes the ConfigMaps and Secrets that no workload refers to. A Part may instead name an
// existing Secret: this Secret keeps its name when its content changes, so that the change does not roll out.
//
// A rotation of the encryption key takes two deployments of an API server: see NewKeyPopulated.
package apiserver

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
)

// Server is an API server.
type Server struct {
	// Name is the prefix of the names of its ConfigMaps and Secrets.
	Name string
	// Namespace is the namespace of the ConfigMaps and Secrets of the API server.
	Namespace string
	// Path is the field of a Garden that contains the settings of the API server.
	Path string
}

// Part is a folder with configuration files, and the arguments that name them.
type Part struct {
	// Volume is the name of the volume; empty if there is no folder.
	Volume, Folder string
	// Object is the immutable ConfigMap or Secret with the files; nil if an existing Secret has them.
	Object client.Object
	// Secret is the name of the existing Secret with the files, if Object is nil.
	Secret string
	// Private makes the files readable for the group of the process only.
	Private bool
	Args    []string
}

// Objects returns the objects of the parts, without the parts that have none.
func Objects(parts []Part) []client.Object {
	var objects []client.Object
	for _, each := range parts {
		if each.Object != nil {
			objects = append(objects, each.Object)
		}
	}
	return objects
}

// Args returns the arguments of all parts.
func Args(parts []Part) []string {
	var all []string
	for _, each := range parts {
		all = append(all, each.Args...)
	}
	return all
}

// Mount adds a volume and a read-only mount for each part with a folder.
func Mount(m *pods.Mounts, parts []Part) {
	for _, each := range parts {
		if each.Volume != "" {
			m.Add(each.Volume, each.Folder, true, each.source())
		}
	}
}

func (p Part) source() corev1.VolumeSource {
	if p.Object == nil {
		return pods.SecretSource(p.Secret, p.Private)
	}
	if _, isConfigMap := p.Object.(*corev1.ConfigMap); isConfigMap {
		return pods.ConfigMapSource(p.Object.GetName())
	}
	return pods.SecretSource(p.Object.GetName(), p.Private)
}

// Deployment returns the Deployment of an API server: see Owner.Deployment. It also sets the priority class and the grace period of the
// Pods, turns off the automount of a token, and sets minReadySeconds. New Pods start before old Pods end.
func Deployment(
	owner object.Owner, name string, replicas int32, selector, further map[string]string, pod corev1.PodSpec,
) *appsv1.Deployment {
	pod.PriorityClassName, pod.AutomountServiceAccountToken = system.Class500, ptr.To(false)
	pod.TerminationGracePeriodSeconds = ptr.To[int64](ShutdownSeconds)
	d := owner.WithLabels(map[string]string{object.AvailabilityType: object.Server}).Deployment(name, replicas, selector, further, pod)
	d.Spec.MinReadySeconds = 30
	d.Spec.Strategy = appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge: ptr.To(intstr.FromString("100%")), MaxUnavailable: ptr.To(intstr.FromInt32(0)),
		},
	}
	return d
}
