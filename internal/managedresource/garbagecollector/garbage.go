package garbagecollector

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/references"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/merge"
)

// collectable is a kind whose objects are collected.
type collectable struct {
	kind     string
	resource schema.GroupVersionResource
}

func collectables() []collectable {
	return []collectable{
		{kind: "ConfigMap", resource: corev1.SchemeGroupVersion.WithResource("configmaps")},
		{kind: "Secret", resource: corev1.SchemeGroupVersion.WithResource("secrets")},
	}
}

// kindOfReference returns the kind that a reference annotation means; "" if objects of that kind are not collected.
func kindOfReference(kind string) string {
	switch kind {
	case references.KindConfigMap:
		return "ConfigMap"
	case references.KindSecret:
		return "Secret"
	}
	return ""
}

// key names a ConfigMap or Secret.
type key struct{ kind, namespace, name string }

func (k key) String() string { return k.kind + " " + k.namespace + "/" + k.name }

// candidate is an object as it was when it was found to be old enough. It is deleted only if it is still that.
type candidate struct {
	key
	uid     types.UID
	version string
	created time.Time
}

func (c candidate) reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: c.kind, Namespace: c.namespace, Name: c.name, UID: c.uid}
}

// garbage is what may be deleted: at first every candidate, in the end those that nobody was found to need. It holds
// nothing of those who need them, since a cluster may have very many.
type garbage map[key]candidate

// consider takes an object up if it may be deleted as far as itself is concerned.
func (g garbage) consider(kind string, object *metav1.PartialObjectMetadata, now time.Time, minimumAge time.Duration) {
	young := object.CreationTimestamp.Add(minimumAge).After(now)
	if young || object.DeletionTimestamp != nil ||
		object.Labels[resourcesv1alpha1.GarbageCollectableReference] != "true" || merge.Truthy(object.Annotations[resourcesv1alpha1.KeepObject]) {
		return
	}
	named := key{kind: kind, namespace: object.Namespace, name: object.Name}
	g[named] = candidate{key: named, uid: object.UID, version: object.ResourceVersion, created: object.CreationTimestamp.Time}
}

// spareReferenced drops what a referrer names in its annotations. The hash in their keys is not compared with
// anything: when in doubt, an object is kept.
func (g garbage) spareReferenced(namespace string, annotations map[string]string) {
	for annotation, name := range annotations {
		if kind, ok := references.KindFromAnnotationKey(annotation); ok {
			delete(g, key{kind: kindOfReference(kind), namespace: namespace, name: name})
		}
	}
}

// spareSet drops what a ManagedResource of the source needs although no annotation may say so: the Secrets that it is
// read from, if they are in the target, and, if the set is held by the given finalizer, the objects that it contains,
// because they would be created again at once.
func (g garbage) spareSet(mr *resourcesv1alpha1.ManagedResource, inTarget bool, finalizer string) {
	if inTarget {
		for _, ref := range mr.Spec.SecretRefs {
			delete(g, key{kind: "Secret", namespace: mr.Namespace, name: ref.Name})
		}
	}
	if !slices.Contains(mr.Finalizers, finalizer) {
		return
	}
	for _, ref := range mr.Status.Resources {
		if ref.APIVersion == "v1" {
			delete(g, key{kind: ref.Kind, namespace: ref.Namespace, name: ref.Name})
		}
	}
}

// sorted lists what is left, by kind, namespace and name.
func (g garbage) sorted() []candidate {
	return slices.SortedFunc(maps.Values(g), func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
}

// count tells how many there are of each kind.
func count(unused []candidate) map[string]int {
	counts := map[string]int{}
	for _, each := range collectables() {
		counts[each.kind] = 0
	}
	for _, each := range unused {
		counts[each.kind]++
	}
	return counts
}
