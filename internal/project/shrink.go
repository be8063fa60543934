package project

import (
	"maps"
	"slices"
	"unique"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// shrinkProject is the transform for the cache of Projects. It removes the managed fields and reduces the memory of the other fields:
// decoders leave unused capacity in lists, and allocate each string separately.
func shrinkProject(object any) (any, error) {
	decoded, ok := object.(*corev1beta1.Project)
	if !ok {
		return object, nil
	}
	decoded.ManagedFields = nil
	p := decoded.DeepCopy()
	shareAll(p.Finalizers)
	p.Status.Phase = corev1beta1.ProjectPhase(share(string(p.Status.Phase)))
	for _, each := range []*rbacv1.Subject{p.Spec.Owner, p.Spec.CreatedBy} {
		if each != nil {
			shareSubject(each)
		}
	}
	for i := range p.Spec.Members {
		m := &p.Spec.Members[i]
		shareSubject(&m.Subject)
		m.Role = share(m.Role)
		shareAll(m.Roles)
	}
	return p, nil
}

// shrinkNamespace does the same as shrinkProject for the cache of Namespaces, which contains only metadata.
func shrinkNamespace(object any) (any, error) {
	namespace, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	namespace.ManagedFields = nil
	labels := maps.Clone(namespace.Labels)
	clear(labels)
	for key, value := range namespace.Labels {
		labels[share(key)] = value
	}
	namespace.Labels = labels
	namespace.OwnerReferences = slices.Clone(namespace.OwnerReferences)
	for i := range namespace.OwnerReferences {
		owner := &namespace.OwnerReferences[i]
		owner.APIVersion, owner.Kind = share(owner.APIVersion), share(owner.Kind)
	}
	return namespace, nil
}

func shareSubject(s *rbacv1.Subject) { s.APIGroup, s.Kind = share(s.APIGroup), share(s.Kind) }

func shareAll(words []string) {
	for i := range words {
		words[i] = share(words[i])
	}
}

// share makes equal strings share their memory. It is for strings that many objects have.
func share(word string) string { return unique.Make(word).Value() }
