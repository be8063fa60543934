package served

import (
	corev1 "k8s.io/api/core/v1"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	securityv1alpha1 "github.com/espalier-dev/espalier/api/security/v1alpha1"
)

// secretKind is the kind of the credentials that SecretBindings name.
const secretKind = "Secret"

// Binding is what SecretBindings and CredentialsBindings have in common.
type Binding struct {
	Namespace, Name string
	// UsedBy is the index that has the Shoots which use the binding. They are in its namespace.
	UsedBy string
	// Credentials has kind, namespace and name. The kind is Secret or, of a CredentialsBinding, any other.
	Credentials corev1.ObjectReference
	// Quotas have namespace and name.
	Quotas []corev1.ObjectReference
}

// NamesSecret reports whether the credentials are a Secret.
func (b Binding) NamesSecret() bool { return b.Credentials.Kind == secretKind }

// BindingOf returns what a trimmed object of one of the kinds Bindings refers to. ok is false for other objects.
func BindingOf(object any) (binding Binding, ok bool) {
	switch found := object.(type) {
	case *corev1beta1.SecretBinding:
		return Binding{
			Namespace: found.Namespace, Name: found.Name, UsedBy: ByBinding, Quotas: found.Quotas,
			Credentials: corev1.ObjectReference{Kind: secretKind, Namespace: found.SecretRef.Namespace, Name: found.SecretRef.Name},
		}, true
	case *securityv1alpha1.CredentialsBinding:
		return Binding{
			Namespace: found.Namespace, Name: found.Name, UsedBy: ByCredentialsBinding, Quotas: found.Quotas, Credentials: found.CredentialsRef,
		}, true
	}
	return Binding{}, false
}
