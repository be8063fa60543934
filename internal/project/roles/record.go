package roles

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// record has the fields that Trim keeps of an object, in a quarter of the memory: the empty fields of the object's type need more memory
// than the others. A record is never changed.
type record struct {
	namespace, name, version, generateName string
	// rare is nil for most objects.
	rare *rareFields
}

// rareFields has fields that few objects have.
type rareFields struct {
	uid        types.UID
	labels     map[string]string
	finalizers []string
}

var _ metav1.ObjectMetaAccessor = &record{}

// GetObjectMeta implements metav1.ObjectMetaAccessor, from which informers derive the keys of their stores. It returns a copy.
func (r *record) GetObjectMeta() metav1.Object {
	meta := r.meta()
	return &meta
}

func (r *record) meta() metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Namespace: r.namespace, Name: r.name, ResourceVersion: r.version, GenerateName: r.generateName}
	if r.rare != nil {
		meta.UID, meta.Labels, meta.Finalizers = r.rare.uid, r.rare.labels, r.rare.finalizers
	}
	return meta
}

// pack makes a record of a trimmed object. Other values stay as they are.
func pack(trimmed any) any {
	switch trimmed.(type) {
	case *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding, *rbacv1.RoleBinding:
	default:
		return trimmed
	}
	o, ok := trimmed.(client.Object)
	if !ok {
		return trimmed
	}
	r := &record{namespace: o.GetNamespace(), name: o.GetName(), version: o.GetResourceVersion(), generateName: o.GetGenerateName()}
	if o.GetUID() != "" || o.GetLabels() != nil || o.GetFinalizers() != nil {
		r.rare = &rareFields{uid: o.GetUID(), labels: o.GetLabels(), finalizers: o.GetFinalizers()}
	}
	return r
}

// unpack builds objects from the records of one kind.
type unpack func(metav1.ObjectMeta) client.Object

// unpackFor returns a function that builds objects of the example's kind; nil if objects of that kind are not trimmed.
func unpackFor(example runtime.Object) unpack {
	switch example.(type) {
	case *rbacv1.ClusterRole:
		return func(meta metav1.ObjectMeta) client.Object { return &rbacv1.ClusterRole{ObjectMeta: meta} }
	case *rbacv1.ClusterRoleBinding:
		return func(meta metav1.ObjectMeta) client.Object { return &rbacv1.ClusterRoleBinding{ObjectMeta: meta} }
	case *rbacv1.RoleBinding:
		return func(meta metav1.ObjectMeta) client.Object { return &rbacv1.RoleBinding{ObjectMeta: meta} }
	}
	return nil
}

// one returns the object of a record, also inside a DeletedFinalStateUnknown. Other values stay as they are.
func (u unpack) one(stored any) any {
	switch found := stored.(type) {
	case *record:
		return u(found.meta())
	case cache.DeletedFinalStateUnknown:
		found.Obj = u.one(found.Obj)
		return found
	}
	return stored
}

// all replaces the records of a list by their objects, in place. The caller must own the list.
func (u unpack) all(stored []any) []any {
	for i := range stored {
		stored[i] = u.one(stored[i])
	}
	return stored
}
