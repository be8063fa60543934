package garbagecollector

import (
	"cmp"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/references"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/merge"
)

// collectables returns the resources of the kinds whose objects are collected.
func collectables() map[string]schema.GroupVersionResource {
	return map[string]schema.GroupVersionResource{
		"ConfigMap": corev1.SchemeGroupVersion.WithResource("configmaps"),
		"Secret":    corev1.SchemeGroupVersion.WithResource("secrets"),
	}
}

// kindOfReference returns the kind, such as "Secret", for a kind as it is written in the key of a reference annotation, such as "secret".
// It returns "" if the garbage collector does not collect objects of this kind.
func kindOfReference(kind string) string {
	return map[string]string{references.KindConfigMap: "ConfigMap", references.KindSecret: "Secret"}[kind]
}

// referrer is a kind whose annotations can reference ConfigMaps and Secrets.
type referrer struct {
	kind     string
	resource string
	// versions are the API versions that the target may serve. The first one that it serves is used, because each of them lists all objects.
	versions []schema.GroupVersion
}

// referrers lists workloads before their Pods, because a reference moves from a workload to its Pods.
func referrers() []referrer {
	return []referrer{
		{"ManagedResource", "managedresources", []schema.GroupVersion{resourcesv1alpha1.SchemeGroupVersion}},
		{"Prometheus", "prometheuses", []schema.GroupVersion{{Group: "monitoring.coreos.com", Version: "v1"}}},
		{"Deployment", "deployments", []schema.GroupVersion{appsv1.SchemeGroupVersion}},
		{"StatefulSet", "statefulsets", []schema.GroupVersion{appsv1.SchemeGroupVersion}},
		{"DaemonSet", "daemonsets", []schema.GroupVersion{appsv1.SchemeGroupVersion}},
		// Kubernetes before 1.21 serves the older version only.
		{"CronJob", "cronjobs", []schema.GroupVersion{batchv1.SchemeGroupVersion, batchv1beta1.SchemeGroupVersion}},
		{"Job", "jobs", []schema.GroupVersion{batchv1.SchemeGroupVersion}},
		{"Pod", "pods", []schema.GroupVersion{corev1.SchemeGroupVersion}},
	}
}

// key identifies a ConfigMap or Secret.
type key struct{ kind, namespace, name string }

func (k key) String() string { return k.kind + " " + k.namespace + "/" + k.name }

// candidate is an object in the state in which it was found to be old enough. It is deleted only if it is still in that state.
type candidate struct {
	key
	uid     types.UID
	version string
	created time.Time
}

func (c candidate) reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: c.kind, Namespace: c.namespace, Name: c.name, UID: c.uid}
}

// garbage contains the objects that may be deleted: at first all candidates, at the end only the candidates without a reference. It stores
// nothing about the referring objects, because a cluster may have very many.
type garbage map[key]candidate

// consider adds an object if its own metadata allows its deletion.
func (g garbage) consider(kind string, object *metav1.PartialObjectMetadata, now time.Time, minimumAge time.Duration) {
	young := object.CreationTimestamp.Add(minimumAge).After(now)
	if young || object.DeletionTimestamp != nil ||
		object.Labels[resourcesv1alpha1.GarbageCollectableReference] != "true" || merge.Truthy(object.Annotations[resourcesv1alpha1.KeepObject]) {
		return
	}
	named := key{kind: kind, namespace: object.Namespace, name: object.Name}
	g[named] = candidate{key: named, uid: object.UID, version: object.ResourceVersion, created: object.CreationTimestamp.Time}
}

// spareReferenced removes from g the objects to which the annotations of another object refer. It does not check the hash in the keys of
// the annotations: if in doubt, the object is not deleted.
func (g garbage) spareReferenced(namespace string, annotations map[string]string) {
	for annotation, name := range annotations {
		if kind, ok := references.KindFromAnnotationKey(annotation); ok {
			delete(g, key{kind: kindOfReference(kind), namespace: namespace, name: name})
		}
	}
}

// spareSet removes from g the objects that a ManagedResource needs even without a reference annotation. If inTarget is true, the
// ManagedResource is or may be in the target, and its Secrets are removed from g. If the ManagedResource has the given finalizer, its
// objects are also removed from g, because the controller would create them again at once.
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

// sorted lists the remaining objects by kind, namespace and name.
func (g garbage) sorted() []candidate {
	return slices.SortedFunc(maps.Values(g), func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
}

// count returns the number of objects of each kind.
func count(unused []candidate) map[string]int {
	counts := map[string]int{}
	for kind := range collectables() {
		counts[kind] = 0
	}
	for _, each := range unused {
		counts[each.kind]++
	}
	return counts
}
