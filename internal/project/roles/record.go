package roles

import (
	"maps"
	"strings"
	"time"
	"unique"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// Trim is the transform for caches of ClusterRoles, ClusterRoleBindings and RoleBindings. A large cluster has eleven of these objects for
// each Project. Trim keeps the name, namespace and resource version of each object, and its finalizers, which few objects have. For an
// object of an extension role, it also keeps the UID and the two labels, because such an object may be deleted based on the cache. For an
// object that a Project controls, it also keeps a fingerprint and the name of the Project. These two are in generateName, which has no
// meaning in an existing object, and needs less memory than an owner reference. Nothing else is kept. Objects of other kinds stay as they
// are.
//
// The result is a record, which needs a quarter of the memory of an object. Handlers of events get the records. Clients that read the
// cache get objects of the kind, unless they use UnsafeDisableDeepCopy.
func Trim(object any) (any, error) {
	o, ok := object.(client.Object)
	if !ok {
		return object, nil
	}
	r := &record{ObjectMeta: noRareFields, namespace: o.GetNamespace(), name: o.GetName(), version: o.GetResourceVersion()}
	switch o.(type) {
	case *rbacv1.ClusterRole:
		r.kind = kindClusterRole
	case *rbacv1.ClusterRoleBinding:
		r.kind = kindClusterRoleBinding
	case *rbacv1.RoleBinding:
		r.kind = kindRoleBinding
		// the same few names occur in every namespace
		r.namespace, r.name = unique.Make(r.namespace).Value(), unique.Make(r.name).Value()
	default: // records are trimmed already
		return object, nil
	}
	project := extensionOf(o)
	if project != "" {
		r.ObjectMeta = &metav1.ObjectMeta{UID: o.GetUID(), Labels: ExtensionLabels(strings.Clone(project)), Finalizers: o.GetFinalizers()}
	} else if len(o.GetFinalizers()) > 0 {
		r.ObjectMeta = &metav1.ObjectMeta{Finalizers: o.GetFinalizers()}
	}
	owner := metav1.GetControllerOfNoCopy(o)
	if owner == nil || owner.Kind != "Project" || !strings.HasPrefix(owner.APIVersion, corev1beta1.GroupName+"/") {
		return r, nil
	}
	mark, err := fingerprint(o)
	r.generateName = mark + owner.Name
	return r, err
}

// NewInformer creates the informers of a cache whose RBAC objects are trimmed by Trim. It leaves the index by namespace empty for
// cluster-scoped kinds: the index would contain all objects under the empty name.
func NewInformer(
	source cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers,
) cache.SharedIndexInformer {
	switch example.(type) {
	case *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding:
		indexers = maps.Clone(indexers)
		indexers[cache.NamespaceIndex] = func(any) ([]string, error) { return nil, nil }
	}
	return cache.NewSharedIndexInformer(source, example, resync, indexers)
}

// kind is the kind of a record.
type kind byte

const (
	kindRoleBinding kind = iota
	kindClusterRoleBinding
	kindClusterRole
)

// record holds the fields that Trim keeps of an object. It is never changed: callers must not use its setters, because most records
// share one ObjectMeta.
type record struct {
	// ObjectMeta contains the fields that few objects have. Objects without these fields share an empty ObjectMeta.
	*metav1.ObjectMeta

	namespace, name, version, generateName string
	kind                                   kind
}

var (
	_ client.Object = &record{}

	noRareFields = &metav1.ObjectMeta{}
)

// GetObjectMeta implements metav1.ObjectMetaAccessor.
func (r *record) GetObjectMeta() metav1.Object { return r }

// GetNamespace implements metav1.Object.
func (r *record) GetNamespace() string { return r.namespace }

// GetName implements metav1.Object.
func (r *record) GetName() string { return r.name }

// GetResourceVersion implements metav1.Object.
func (r *record) GetResourceVersion() string { return r.version }

// GetGenerateName implements metav1.Object.
func (r *record) GetGenerateName() string { return r.generateName }

// GetObjectKind implements runtime.Object.
func (*record) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. It returns an object of the record's kind.
func (r *record) DeepCopyObject() runtime.Object {
	meta := *r.ObjectMeta.DeepCopy()
	meta.Namespace, meta.Name, meta.ResourceVersion, meta.GenerateName = r.namespace, r.name, r.version, r.generateName
	switch r.kind {
	case kindClusterRole:
		return &rbacv1.ClusterRole{ObjectMeta: meta}
	case kindClusterRoleBinding:
		return &rbacv1.ClusterRoleBinding{ObjectMeta: meta}
	default:
		return &rbacv1.RoleBinding{ObjectMeta: meta}
	}
}
