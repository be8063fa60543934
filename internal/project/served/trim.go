package served

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// trim returns a copy of an object with nothing but what is looked at later, so that large clusters take little memory.
// What it does not know it leaves as it is.
func trim(object runtime.Object) runtime.Object {
	switch found := object.(type) {
	case *corev1beta1.Shoot:
		kept := &corev1beta1.Shoot{ObjectMeta: identity(&found.ObjectMeta)}
		if name := found.Spec.SecretBindingName; name != nil {
			kept.Spec.SecretBindingName = ptr.To(intern(*name))
		}
		return kept
	case *corev1beta1.SecretBinding:
		return trimBinding(found)
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

// keptLabels are those by which it is decided what an object counts as.
func keptLabels() [2]string {
	return [2]string{corev1beta1.LabelSecretBindingReference, corev1beta1.LabelRole}
}

// trimBinding also fills in what an aggregated API would have: a namespace that is left out is the binding's own.
func trimBinding(found *corev1beta1.SecretBinding) *corev1beta1.SecretBinding {
	own := intern(found.Namespace)
	in := func(namespace string) string {
		if namespace == "" {
			return own
		}
		return intern(namespace)
	}
	kept := &corev1beta1.SecretBinding{ObjectMeta: identity(&found.ObjectMeta)}
	kept.SecretRef.Name, kept.SecretRef.Namespace = found.SecretRef.Name, in(found.SecretRef.Namespace)
	for _, quota := range found.Quotas {
		kept.Quotas = append(kept.Quotas, corev1.ObjectReference{Namespace: in(quota.Namespace), Name: quota.Name})
	}
	return kept
}

func identity(found *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: intern(found.Namespace), Name: found.Name, UID: found.UID, ResourceVersion: found.ResourceVersion,
		Generation: found.Generation, CreationTimestamp: found.CreationTimestamp, DeletionTimestamp: found.DeletionTimestamp,
	}
}

// The Secrets of Shoots, which are no reason to keep a project.
const (
	shootVersion = "core.gardener.cloud/v1beta1"
	shootKind    = "Shoot"
)

// shootOwners are what is kept of the owners of what a Shoot owns.
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

// Credentials tells whether a Secret may hold what Shoots are created with, as opposed to what was made for a Shoot.
func Credentials(secret metav1.Object) bool {
	switch secret.GetLabels()[corev1beta1.LabelRole] {
	case "kubeconfig", "ssh-keypair", "monitoring":
		return false
	}
	return !ownedByShoot(secret)
}

// Referenced tells whether an object carries the label of those that SecretBindings refer to, with whatever value.
func Referenced(object metav1.Object) bool {
	_, has := object.GetLabels()[corev1beta1.LabelSecretBindingReference]
	return has
}

// matters tells of a Secret whether anybody will ask for it: most Secrets of a large cluster are those of Shoots.
func matters(secret metav1.Object) bool { return Credentials(secret) || Referenced(secret) }
