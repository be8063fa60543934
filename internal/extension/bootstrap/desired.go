package bootstrap

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The annotation of the Secret by which users, and the controller of the Seed, request a new certificate.
const (
	operationAnnotation = "gardener.cloud/operation"
	operationRenew      = "renew"
)

func newSecret(key client.ObjectKey, kubeconfig []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{kubeconfigKey: kubeconfig},
	}
}

// renewed returns the Secret with another kubeconfig, and without the request for a renewal.
func renewed(secret *corev1.Secret, kubeconfig []byte) *corev1.Secret {
	changed := secret.DeepCopy()
	if changed.Data == nil {
		changed.Data = map[string][]byte{}
	}
	changed.Data[kubeconfigKey] = kubeconfig
	if isRenewalRequested(changed) {
		delete(changed.Annotations, operationAnnotation)
	}
	return changed
}

func isRenewalRequested(secret *corev1.Secret) bool {
	return secret.Annotations[operationAnnotation] == operationRenew
}
