package served

import (
	corev1 "k8s.io/api/core/v1"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	securityv1alpha1 "github.com/espalier-dev/espalier/api/security/v1alpha1"
)

// secretKind is the kind of the credentials that SecretBindings refer to.
const secretKind = "Secret"

// Binding is what SecretBindings and CredentialsBindings have in common.
type Binding struct {
	Namespace, Name string
	// UsedBy is the index of the Shoots that use the binding. These Shoots are in the binding's namespace.
	UsedBy string
	// Credentials has kind, namespace and name. The kind is Secret or, for a CredentialsBinding, any kind.
	Credentials corev1.ObjectReference
	// Quotas have namespace and name.
	Quotas []corev1.ObjectReference
}

// NamesSecret reports whether the credentials are a Secret.
func (b Binding) NamesSecret() bool { return b.Credentials.Kind == secretKind }

// BindingOf returns what a trimmed object of one of the kinds of Bindings refers to. ok is false for other objects.
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
