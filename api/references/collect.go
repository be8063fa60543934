package references

import (
	corev1 "k8s.io/api/core/v1"
)

// used is a set of references: annotation keys with their values.
type used map[string]string

// add adds a reference, unless the name is empty: then it refers to no object.
func (u used) add(kind, name string) {
	if name != "" {
		u[AnnotationKey(kind, name)] = name
	}
}

// usedBySecretRefs returns the references of a ManagedResource.
func usedBySecretRefs(refs []corev1.LocalObjectReference) used {
	u := used{}
	for _, ref := range refs {
		u.add(KindSecret, ref.Name)
	}
	return u
}

// usedByPod returns the ConfigMaps and Secrets that a Pod needs to start and run. It ignores init containers.
func usedByPod(spec *corev1.PodSpec) used {
	u := used{}
	for i := range spec.Containers {
		u.addContainer(&spec.Containers[i])
	}
	for i := range spec.Volumes {
		u.addVolume(&spec.Volumes[i].VolumeSource)
	}
	for _, ref := range spec.ImagePullSecrets {
		u.add(KindSecret, ref.Name)
	}
	return u
}

func (u used) addContainer(container *corev1.Container) {
	for _, source := range container.EnvFrom {
		if source.SecretRef != nil {
			u.add(KindSecret, source.SecretRef.Name)
		}
		if source.ConfigMapRef != nil {
			u.add(KindConfigMap, source.ConfigMapRef.Name)
		}
	}
	for _, variable := range container.Env {
		if variable.ValueFrom == nil {
			continue
		}
		if variable.ValueFrom.SecretKeyRef != nil {
			u.add(KindSecret, variable.ValueFrom.SecretKeyRef.Name)
		}
		if variable.ValueFrom.ConfigMapKeyRef != nil {
			u.add(KindConfigMap, variable.ValueFrom.ConfigMapKeyRef.Name)
		}
	}
}

func (u used) addVolume(volume *corev1.VolumeSource) {
	if volume.Secret != nil {
		u.add(KindSecret, volume.Secret.SecretName)
	}
	if volume.ConfigMap != nil {
		u.add(KindConfigMap, volume.ConfigMap.Name)
	}
	if volume.Projected == nil {
		return
	}
	for _, source := range volume.Projected.Sources {
		if source.Secret != nil {
			u.add(KindSecret, source.Secret.Name)
		}
		if source.ConfigMap != nil {
			u.add(KindConfigMap, source.ConfigMap.Name)
		}
	}
}
