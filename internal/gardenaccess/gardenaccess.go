// Package gardenaccess returns the Secrets by which programs get tokens for another cluster, and the mounts that give a Pod a kubeconfig
// with such a token.
package gardenaccess

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	publicaccess "github.com/espalier-dev/espalier/api/gardenaccess"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// GenericKubeconfig is the logical name of the Secret with the generic token kubeconfig.
const GenericKubeconfig = "generic-token-kubeconfig"

// Paths in containers that reach the virtual cluster: the file with the kubeconfig, and the file with the token that the kubeconfig names.
const (
	KubeconfigPath = publicaccess.RuntimeMountPath + "/" + resourcesv1alpha1.DataKeyKubeconfig
	TokenPath      = publicaccess.RuntimeMountPath + "/" + resourcesv1alpha1.DataKeyToken
)

// Secret returns the Secret in which the resource manager of the virtual cluster keeps a token for a ServiceAccount. The resource manager
// creates the ServiceAccount in the namespace kube-system of the virtual cluster. The returned Secret contains no data, so that a
// deployment of it does not remove the token from the existing Secret.
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
	MountAtKubeconfig(pod, publicaccess.Files(kubeconfig, access))
}

// MountAtKubeconfig mounts a source instead of the generic token kubeconfig, at the same path. The source must have the key kubeconfig.
func MountAtKubeconfig(pod *corev1.PodSpec, source corev1.VolumeSource) {
	publicaccess.Mount(pod, corev1.Volume{Name: "kubeconfig", VolumeSource: source}, publicaccess.RuntimeMountPath)
}
