package roles

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

const projectKind = "Project"

// How many bytes of a hash make up each half of a fingerprint. What an object grants may be chosen by an attacker.
const (
	contentBytes = 16
	labelBytes   = 8
)

// Trim is the transform for caches of ClusterRoles, ClusterRoleBindings and RoleBindings. It keeps name, namespace, UID and
// resource version of each, and finalizers, which few have; of those that a Project controls the name of the Project as the only owner, and a fingerprint,
// which is put into generateName, because that has no meaning in an object that exists; and the two labels of extension
// roles. Everything else, and every other object, passes as it is.
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
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
		Finalizers: object.GetFinalizers(),
	}
	if already := object.GetCreationTimestamp(); already.IsZero() { // every object of an API server has one
		meta.OwnerReferences, meta.Labels, meta.GenerateName = object.GetOwnerReferences(), object.GetLabels(), object.GetGenerateName()
		return meta, nil
	}
	if project := extensionOf(object); project != "" {
		meta.Labels = ExtensionLabels(strings.Clone(project))
	}
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || owner.Kind != projectKind || !strings.HasPrefix(owner.APIVersion, corev1beta1.GroupName+"/") {
		return meta, nil
	}
	meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: corev1beta1.SchemeGroupVersion.String(), Kind: projectKind, Name: owner.Name}}
	var err error
	meta.GenerateName, err = fingerprint(object)
	return meta, err
}

// Owner returns the name of the Project that controls an object from a trimmed cache, or "".
func Owner(cached client.Object) string {
	if owners := cached.GetOwnerReferences(); len(owners) == 1 {
		return owners[0].Name
	}
	return ""
}

// extensionOf returns the name of the Project whose extension role an object is by its labels, or "".
func extensionOf(object client.Object) string {
	labels := object.GetLabels()
	if labels[corev1beta1.LabelRole] != corev1beta1.RoleExtensionProject {
		return ""
	}
	return labels[corev1beta1.LabelProjectName]
}

// ExtensionOf returns the name of the Project for an index of ClusterRoles by the Project whose extension roles they are.
func ExtensionOf(object client.Object) []string {
	if project := extensionOf(object); project != "" {
		return []string{project}
	}
	return nil
}

// Same tells whether an object from a trimmed cache is as desired.
func Same(cached, desired client.Object) (bool, error) {
	want, err := fingerprint(desired)
	return err == nil && cached.GetGenerateName() == want, err
}

// GrantsSame tells whether two versions of an object, both from a trimmed cache, have the same owner and grant the same. Their
// labels do not matter.
func GrantsSame(before, after client.Object) bool {
	return granted(before.GetGenerateName()) == granted(after.GetGenerateName())
}

func granted(fingerprint string) string { return fingerprint[:min(len(fingerprint), contentBytes)] }

// content is what a fingerprint is of, labels aside. Rules that are aggregated from other roles are not in it.
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
