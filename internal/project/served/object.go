package served

import (
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	securityv1alpha1 "github.com/espalier-dev/espalier/api/security/v1alpha1"
)

// Object has the fields that are kept of an object, so that large clusters need little memory. It is never changed.
type Object struct {
	Namespace, Name, ResourceVersion string
	UID                              types.UID
	Generation                       int64
	// Created is the time of the creation, in seconds since 1970.
	Created int64
	// SecretBinding and CredentialsBinding are the names of the bindings that a Shoot uses; empty for none.
	SecretBinding, CredentialsBinding string
	// Binding is set for the kinds of Bindings only.
	Binding *Binding
	// Credentials has a meaning for Secrets only. It is true if the Secret may contain credentials with which Shoots are created. It is false
	// for a Secret that was made for a Shoot.
	Credentials bool
	// Referenced is true if a Secret or a Quota has one of two labels, with any value: the label of the objects to which SecretBindings
	// refer, or the label of the objects to which CredentialsBindings refer.
	Referenced bool
}

// Binding has the references of a SecretBinding or CredentialsBinding.
type Binding struct {
	// UsedBy is the name of the index that finds the Shoots that use the binding. These Shoots are in the binding's namespace.
	UsedBy string
	// Credentials is the name of a Secret if OfSecret is true, and otherwise the name of an object of another kind.
	Credentials types.NamespacedName
	OfSecret    bool
	Quotas      []types.NamespacedName
}

// Of returns the fields that are kept of an object.
func Of(object client.Object) *Object {
	created := object.GetCreationTimestamp()
	kept := &Object{
		Namespace: intern(object.GetNamespace()), Name: object.GetName(), ResourceVersion: object.GetResourceVersion(),
		UID: object.GetUID(), Generation: object.GetGeneration(), Created: created.Unix(),
	}
	switch found := object.(type) {
	case *corev1beta1.Shoot:
		kept.SecretBinding = intern(ptr.Deref(found.Spec.SecretBindingName, ""))
		kept.CredentialsBinding = intern(ptr.Deref(found.Spec.CredentialsBindingName, ""))
	case *corev1beta1.SecretBinding:
		kept.Binding = &Binding{
			UsedBy: ByBinding, OfSecret: true, Quotas: quotasOf(found.Quotas, found.Namespace),
			Credentials: reference(found.SecretRef.Namespace, found.SecretRef.Name, found.Namespace),
		}
	case *securityv1alpha1.CredentialsBinding:
		kept.Binding = &Binding{
			UsedBy: ByCredentialsBinding, OfSecret: found.CredentialsRef.Kind == "Secret", Quotas: quotasOf(found.Quotas, found.Namespace),
			Credentials: reference(found.CredentialsRef.Namespace, found.CredentialsRef.Name, found.Namespace),
		}
	default:
		kept.Credentials, kept.Referenced = isCredentials(object), isReferenced(object)
	}
	return kept
}

// reference sets the default that an aggregated API would set: an empty namespace becomes the binding's own.
func reference(namespace, name, own string) types.NamespacedName {
	if namespace == "" {
		namespace = own
	}
	return types.NamespacedName{Namespace: intern(namespace), Name: name}
}

func quotasOf(references []corev1.ObjectReference, own string) []types.NamespacedName {
	found := make([]types.NamespacedName, 0, len(references))
	for _, quota := range references {
		found = append(found, reference(quota.Namespace, quota.Name, own))
	}
	return found
}

func isCredentials(object metav1.Object) bool {
	switch object.GetLabels()[corev1beta1.LabelRole] {
	case "kubeconfig", "ssh-keypair", "monitoring":
		return false
	}
	for _, owner := range object.GetOwnerReferences() {
		if owner.APIVersion == "core.gardener.cloud/v1beta1" && owner.Kind == "Shoot" {
			return false
		}
	}
	return true
}

func isReferenced(object metav1.Object) bool {
	labels := object.GetLabels()
	_, bySecretBinding := labels[corev1beta1.LabelSecretBindingReference]
	_, byCredentialsBinding := labels[corev1beta1.LabelCredentialsBindingReference]
	return bySecretBinding || byCredentialsBinding
}

// intern makes equal names share their memory.
func intern(name string) string { return unique.Make(name).Value() }

// Names of the indexes. A key is "<namespace>", or "<namespace>/<name>" where the name of the index has two parts.
const (
	// ByNamespace has all objects of a namespace, except for objects of Bindings.
	ByNamespace = "namespace"
	// ByBinding has the Shoots that use a SecretBinding.
	ByBinding = "namespace/secretbinding"
	// ByCredentialsBinding has the Shoots that use a CredentialsBinding.
	ByCredentialsBinding = "namespace/credentialsbinding"
	// ByCredentialsNamespace has the bindings of one kind whose credentials are in a namespace.
	ByCredentialsNamespace = "credentials-namespace"
	// ByQuota has the bindings of one kind that refer to a Quota, at any position of their list.
	ByQuota = "quota-namespace/quota"
)

// Key names an object of a namespace in an index.
func Key(namespace, name string) string { return namespace + "/" + name }

// keys returns the keys of an object in an index.
func (o *Object) keys(index string) []string {
	switch {
	case index == ByNamespace && o.Binding == nil:
		return []string{o.Namespace}
	case index == ByBinding && o.SecretBinding != "":
		return []string{Key(o.Namespace, o.SecretBinding)}
	case index == ByCredentialsBinding && o.CredentialsBinding != "":
		return []string{Key(o.Namespace, o.CredentialsBinding)}
	case index == ByCredentialsNamespace && o.Binding != nil:
		return []string{o.Binding.Credentials.Namespace}
	case index == ByQuota && o.Binding != nil:
		keys := make([]string, 0, len(o.Binding.Quotas))
		for _, quota := range o.Binding.Quotas {
			keys = append(keys, quota.String())
		}
		return keys
	}
	return nil
}

// newStore returns a store of Objects with all indexes.
func newStore() toolscache.ThreadSafeStore {
	indexers := toolscache.Indexers{}
	for _, index := range []string{ByNamespace, ByBinding, ByCredentialsBinding, ByCredentialsNamespace, ByQuota} {
		indexers[index] = func(stored any) ([]string, error) {
			return asObject(stored).keys(index), nil
		}
	}
	return toolscache.NewThreadSafeStore(indexers, toolscache.Indices{})
}

// objectsOf returns the Objects of a list from a store.
func objectsOf(stored []any) []*Object {
	found := make([]*Object, 0, len(stored))
	for _, each := range stored {
		found = append(found, asObject(each))
	}
	return found
}

// asObject returns a value from a store as an Object; nil if there is none.
func asObject(stored any) *Object {
	object, _ := stored.(*Object)
	return object
}
