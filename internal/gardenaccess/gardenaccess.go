// Package gardenaccess returns the Secrets by which programs get tokens for another cluster, and the mounts that give a Pod a kubeconfig
// with such a token.
package gardenaccess

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// GenericKubeconfig is the logical name of the Secret with the generic token kubeconfig.
const GenericKubeconfig = "generic-token-kubeconfig"

const kubeconfigFolder = "/var/run/secrets/gardener.cloud/shoot/generic-kubeconfig"

// KubeconfigPath is the file with the kubeconfig in containers that reach the virtual cluster.
const KubeconfigPath = kubeconfigFolder + "/" + resourcesv1alpha1.DataKeyKubeconfig

// Secret returns the Secret in which the resource manager of the virtual cluster keeps a token for a ServiceAccount. The resource manager
// creates the ServiceAccount in the namespace kube-system there. The object has no data, so that its deployment keeps the token.
func Secret(namespace, name, account string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels: map[string]string{
				resourcesv1alpha1.ResourcePurpose: resourcesv1alpha1.PurposeTokenRequestor, resourcesv1alpha1.ResourceClass: "shoot",
			},
			Annotations: map[string]string{
				resourcesv1alpha1.ServiceAccountName: account, resourcesv1alpha1.ServiceAccountNamespace: metav1.NamespaceSystem,
			},
		},
		Type: corev1.SecretTypeOpaque,
	}
}

// MountKubeconfig mounts, in all containers of a Pod, the generic token kubeconfig and beside it the token of an access Secret.
func MountKubeconfig(pod *corev1.PodSpec, kubeconfig, access string) {
	sources := []corev1.VolumeProjection{
		projection(kubeconfig, resourcesv1alpha1.DataKeyKubeconfig), projection(access, resourcesv1alpha1.DataKeyToken),
	}
	MountAtKubeconfig(pod, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: ptr.To[int32](0o644), Sources: sources}})
}

// MountAtKubeconfig mounts another source of a kubeconfig, which must have the key kubeconfig, in the place of the generic one.
func MountAtKubeconfig(pod *corev1.PodSpec, source corev1.VolumeSource) {
	const volume = "kubeconfig"
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: volume, VolumeSource: source})
	for i := range pod.Containers {
		c := &pod.Containers[i]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: kubeconfigFolder, ReadOnly: true})
	}
}

// projection returns a key of a Secret. A Pod does not start before the key exists.
func projection(secret, key string) corev1.VolumeProjection {
	return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Optional: ptr.To(false),
		Items: []corev1.KeyToPath{{Key: key, Path: key}},
	}}
}
