package project

import (
	"maps"
	"slices"
	"unique"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// garbagePercent is how much garbage, in percent of what is in use, the process lets gather before it collects it. Go's own
// default is 100: with caches as large as these, most of the memory would be garbage. Collecting more often costs some
// processor time at the start, and hardly any afterwards, when little is allocated.
const garbagePercent = 25

// shrinkProject is the transform for the cache of Projects. It drops managed fields; everything else stays, in less memory:
// decoders leave room at the end of lists, and make a string of its own of each word.
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

// shrinkNamespace is the same for the cache of Namespaces, of which metadata is cached.
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

// share makes equal words share their memory, for those that many objects have.
func share(word string) string { return unique.Make(word).Value() }
