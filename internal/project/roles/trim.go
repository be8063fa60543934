package roles

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"unique"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

const projectKind = "Project"

// How many bytes of a hash make up each half of a fingerprint. An attacker may choose what an object grants, so the hash of the grants must
// be long enough to prevent collisions.
const (
	contentBytes = 16
	labelBytes   = 8
)

// Trim is the transform for caches of ClusterRoles, ClusterRoleBindings and RoleBindings. A large cluster has eleven of them for each
// Project. Trim keeps name, namespace and resource version of each object, and finalizers, which few objects have. Of objects of extension
// roles, which may be deleted based on the cache, it also keeps the UID and the two labels. Of objects that a Project controls, it also
// keeps a fingerprint and the name of the Project. Both are in generateName, which has no meaning in an existing object, and needs less
// memory than an owner reference. Nothing else is kept. Objects of other kinds stay as they are.
func Trim(object any) (any, error) {
	switch o := object.(type) {
	case *rbacv1.ClusterRole:
		meta, err := trimmed(o)
		if err != nil {
			return nil, err
		}
		return &rbacv1.ClusterRole{ObjectMeta: meta}, nil
	case *rbacv1.ClusterRoleBinding:
		meta, err := trimmed(o)
		if err != nil {
			return nil, err
		}
		return &rbacv1.ClusterRoleBinding{ObjectMeta: meta}, nil
	case *rbacv1.RoleBinding:
		meta, err := trimmed(o)
		if err != nil {
			return nil, err
		}
		return &rbacv1.RoleBinding{ObjectMeta: meta}, nil
	}
	return object, nil
}

func trimmed(object client.Object) (metav1.ObjectMeta, error) {
	meta := metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), ResourceVersion: object.GetResourceVersion(),
		Finalizers: object.GetFinalizers(),
	}
	if meta.Namespace != "" { // the same few names occur in every namespace
		meta.Namespace, meta.Name = unique.Make(meta.Namespace).Value(), unique.Make(meta.Name).Value()
	}
	if already := object.GetCreationTimestamp(); already.IsZero() { // only trimmed objects have no creation time
		meta.UID, meta.Labels, meta.GenerateName = object.GetUID(), object.GetLabels(), object.GetGenerateName()
		return meta, nil
	}
	if project := extensionOf(object); project != "" {
		meta.UID, meta.Labels = object.GetUID(), ExtensionLabels(strings.Clone(project))
	}
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || owner.Kind != projectKind || !strings.HasPrefix(owner.APIVersion, corev1beta1.GroupName+"/") {
		return meta, nil
	}
	mark, err := fingerprint(object)
	meta.GenerateName = mark + owner.Name
	return meta, err
}

// Owner returns the name of the Project that controls an object from a trimmed cache, or "".
func Owner(cached client.Object) string {
	_, owner := split(cached)
	return owner
}

// split returns fingerprint and owner of an object from a trimmed cache. Both are empty if no Project controls it.
func split(cached client.Object) (mark, owner string) {
	kept := cached.GetGenerateName()
	end := min(len(kept), contentBytes+labelBytes)
	return kept[:end], kept[end:]
}

// extensionOf returns the name of the Project whose extension role an object is according to its labels, or "".
func extensionOf(object client.Object) string {
	labels := object.GetLabels()
	if labels[corev1beta1.LabelRole] != corev1beta1.RoleExtensionProject {
		return ""
	}
	return labels[corev1beta1.LabelProjectName]
}

// ExtensionOf is an index function for ClusterRoles: it returns the name of the Project whose extension role an object is.
func ExtensionOf(object client.Object) []string {
	if project := extensionOf(object); project != "" {
		return []string{project}
	}
	return nil
}

// Same reports whether an object from a trimmed cache is as desired.
func Same(cached, desired client.Object) (bool, error) {
	want, err := fingerprint(desired)
	have, _ := split(cached)
	return err == nil && have == want, err
}

// GrantsSame reports whether two versions of an object, both from a trimmed cache, have the same owner and grant the same rights. Their
// labels are ignored.
func GrantsSame(before, after client.Object) bool {
	return granted(before) == granted(after)
}

func granted(cached client.Object) string {
	mark, _ := split(cached)
	return mark[:min(len(mark), contentBytes)]
}

// content is what a fingerprint covers, except for labels. Rules that are aggregated from other roles are not included.
type content struct {
	Owners      []metav1.OwnerReference `json:"owners,omitempty"`
	Rules       []rbacv1.PolicyRule     `json:"rules,omitempty"`
	Aggregation *rbacv1.AggregationRule `json:"aggregation,omitempty"`
	Role        *rbacv1.RoleRef         `json:"role,omitempty"`
	Subjects    []rbacv1.Subject        `json:"subjects,omitempty"`
}

func fingerprint(object client.Object) (string, error) {
	c := content{Owners: object.GetOwnerReferences()}
	switch o := object.(type) {
	case *rbacv1.ClusterRole:
		c.Aggregation = o.AggregationRule
		if o.AggregationRule == nil {
			c.Rules = o.Rules
		}
	case *rbacv1.ClusterRoleBinding:
		c.Role, c.Subjects = &o.RoleRef, o.Subjects
	case *rbacv1.RoleBinding:
		c.Role, c.Subjects = &o.RoleRef, o.Subjects
	}
	grants, err := hash(c)
	if err != nil {
		return "", err
	}
	labels, err := hash(object.GetLabels())
	if err != nil {
		return "", err
	}
	return string(grants[:contentBytes]) + string(labels[:labelBytes]), nil
}

func hash(value any) ([sha256.Size]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("hash: %w", err)
	}
	return sha256.Sum256(text), nil
}
