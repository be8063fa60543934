// Package apiserver has what kube-apiserver and gardener-apiserver have in common: arguments, configuration files with the objects that
// they are in, references of the Garden to Secrets and ConfigMaps, and the order of encryption keys.
//
// Files are in immutable ConfigMaps and Secrets, which are named after their content, so that a change rolls out; the garbage collector of
// the resource manager deletes those that no workload refers to.
//
// A rotation of the encryption key takes two deployments of an API server: see NewKeyPopulated.
package apiserver

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/shared"
)

// Server is an API server.
type Server struct {
	// Name begins the names of its ConfigMaps and Secrets.
	Name string
	// Namespace is that of its ConfigMaps and Secrets.
	Namespace string
	// Path is the field of a Garden with its settings.
	Path string
}

// Part is a folder with configuration files, and the arguments that name them.
type Part struct {
	// Volume is the name of the volume; empty if there is no folder.
	Volume, Folder string
	// Object is the immutable ConfigMap or Secret with the files; nil if others create it.
	Object client.Object
	// Secret is the name of a Secret that others create.
	Secret string
	// Private makes the files readable for the group of the process only.
	Private bool
	Args    []string
}

// Objects returns the objects of parts that have one.
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

// Mount adds the folders of parts.
func Mount(m *shared.Mounts, parts []Part) {
	for _, each := range parts {
		if each.Volume != "" {
			m.Add(each.Volume, each.Folder, true, each.source())
		}
	}
}

func (p Part) source() corev1.VolumeSource {
	if p.Object == nil {
		return SecretSource(p.Secret, p.Private)
	}
	if _, isConfigMap := p.Object.(*corev1.ConfigMap); isConfigMap {
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: p.Object.GetName()},
		}}
	}
	return SecretSource(p.Object.GetName(), p.Private)
}

// SecretSource returns a volume with a Secret. Files that are private are readable for the group of the process only.
func SecretSource(name string, private bool) corev1.VolumeSource {
	source := &corev1.SecretVolumeSource{SecretName: name}
	if private {
		source.DefaultMode = ptr.To[int32](0o640)
	}
	return corev1.VolumeSource{Secret: source}
}
