package served

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	securityv1alpha1 "github.com/espalier-dev/espalier/api/security/v1alpha1"
)

// trim returns a copy of an object with only the fields that are read later, so that large clusters need little memory. Objects of other
// types stay as they are.
func trim(object runtime.Object) runtime.Object {
	switch found := object.(type) {
	case *corev1beta1.Shoot:
		kept := &corev1beta1.Shoot{ObjectMeta: identity(&found.ObjectMeta)}
		if name := found.Spec.SecretBindingName; name != nil {
			kept.Spec.SecretBindingName = ptr.To(intern(*name))
		}
		if name := found.Spec.CredentialsBindingName; name != nil {
			kept.Spec.CredentialsBindingName = ptr.To(intern(*name))
		}
		return kept
	case *corev1beta1.SecretBinding:
		return trimSecretBinding(found)
	case *securityv1alpha1.CredentialsBinding:
		return trimCredentialsBinding(found)
	case *metav1.PartialObjectMetadata:
		kept := &metav1.PartialObjectMetadata{ObjectMeta: identity(&found.ObjectMeta)}
		for _, label := range keptLabels() {
			if value, has := found.Labels[label]; has {
				metav1.SetMetaDataLabel(&kept.ObjectMeta, label, intern(value))
			}
		}
		if ownedByShoot(found) {
			kept.OwnerReferences = shootOwners()
		}
		return kept
	}
	return object
}

// keptLabels are the labels that decide what an object counts as.
func keptLabels() [3]string {
	return [3]string{corev1beta1.LabelSecretBindingReference, corev1beta1.LabelCredentialsBindingReference, corev1beta1.LabelRole}
}

// trimSecretBinding also sets the default that an aggregated API would set: an empty namespace becomes the binding's own.
func trimSecretBinding(found *corev1beta1.SecretBinding) *corev1beta1.SecretBinding {
	kept := &corev1beta1.SecretBinding{ObjectMeta: identity(&found.ObjectMeta), Quotas: trimQuotas(found.Quotas, found.Namespace)}
	kept.SecretRef.Name, kept.SecretRef.Namespace = found.SecretRef.Name, namespaceOr(found.SecretRef.Namespace, found.Namespace)
	return kept
}

// trimCredentialsBinding sets the same default.
func trimCredentialsBinding(found *securityv1alpha1.CredentialsBinding) *securityv1alpha1.CredentialsBinding {
	return &securityv1alpha1.CredentialsBinding{
		ObjectMeta: identity(&found.ObjectMeta), Quotas: trimQuotas(found.Quotas, found.Namespace),
		CredentialsRef: corev1.ObjectReference{
			Kind: intern(found.CredentialsRef.Kind), Namespace: namespaceOr(found.CredentialsRef.Namespace, found.Namespace),
			Name: found.CredentialsRef.Name,
		},
	}
}

func trimQuotas(found []corev1.ObjectReference, own string) []corev1.ObjectReference {
	if len(found) == 0 {
		return nil
	}
	kept := make([]corev1.ObjectReference, 0, len(found))
	for _, quota := range found {
		kept = append(kept, corev1.ObjectReference{Namespace: namespaceOr(quota.Namespace, own), Name: quota.Name})
	}
	return kept
}

// namespaceOr returns a namespace, or the default if it is empty.
func namespaceOr(namespace, otherwise string) string {
	if namespace == "" {
		return intern(otherwise)
	}
	return intern(namespace)
}

func identity(found *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: intern(found.Namespace), Name: found.Name, UID: found.UID, ResourceVersion: found.ResourceVersion,
		Generation: found.Generation, CreationTimestamp: found.CreationTimestamp, DeletionTimestamp: found.DeletionTimestamp,
	}
}

// The owners of the Secrets of Shoots. Such a Secret is no reason to keep a project.
const (
	shootVersion = "core.gardener.cloud/v1beta1"
	shootKind    = "Shoot"
)

// shootOwners are the owner references that trim keeps for objects that a Shoot owns.
func shootOwners() []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: shootVersion, Kind: shootKind}}
}

func ownedByShoot(object metav1.Object) bool {
	for _, owner := range object.GetOwnerReferences() {
		if owner.APIVersion == shootVersion && owner.Kind == shootKind {
			return true
		}
	}
	return false
}

// Credentials reports whether a Secret may contain credentials with which Shoots are created. Secrets that were made for a Shoot do not.
func Credentials(secret metav1.Object) bool {
	switch secret.GetLabels()[corev1beta1.LabelRole] {
	case "kubeconfig", "ssh-keypair", "monitoring":
		return false
	}
	return !ownedByShoot(secret)
}

// Referenced reports whether an object has the label of credentials to which SecretBindings or CredentialsBindings refer, with any value.
func Referenced(object metav1.Object) bool {
	labels := object.GetLabels()
	_, bySecretBinding := labels[corev1beta1.LabelSecretBindingReference]
	_, byCredentialsBinding := labels[corev1beta1.LabelCredentialsBindingReference]
	return bySecretBinding || byCredentialsBinding
}

// matters reports whether a reader of the cache needs a Secret: most Secrets of a large cluster belong to Shoots.
func matters(secret metav1.Object) bool { return Credentials(secret) || Referenced(secret) }
