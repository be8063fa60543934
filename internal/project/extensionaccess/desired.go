package extensionaccess

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// labelled is the only value of the label that counts.
const labelled = "true"

// role has the relevant fields of a labelled ClusterRole.
type role struct {
	uid      types.UID
	deleting bool
	// selector is nil if the annotation is invalid; then invalid is the reason.
	selector labels.Selector
	invalid  error
}

// roleOf reads a ClusterRole.
func roleOf(object metav1.Object) role {
	selector, err := parseSelector(object.GetAnnotations())
	return role{uid: object.GetUID(), deleting: object.GetDeletionTimestamp() != nil, selector: selector, invalid: err}
}

// parseSelector parses the selector strictly: a misspelled field would otherwise be ignored, and the selector would match everything.
func parseSelector(annotations map[string]string) (labels.Selector, error) {
	const parsing = "failed computing subjects for ClusterRoleBinding: failed parsing label selector"
	text, found := annotations[corev1beta1.AnnotationExtensionsServiceAccountSelector]
	if !found {
		return nil, errors.New(parsing + ": no service account selector annotations present")
	}
	var raw *metav1.LabelSelector
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&raw)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is something behind the object")
		} else if raw == nil {
			err = errors.New("null is no selector")
		}
	}
	if err != nil {
		return nil, fmt.Errorf(parsing+": failed unmarshalling extensions service account selector: %w", err)
	}
	selector, err := metav1.LabelSelectorAsSelector(raw)
	if err != nil {
		return nil, fmt.Errorf(parsing+": %w", err)
	}
	return selector, nil
}

// desired returns the desired binding of a ClusterRole to ServiceAccounts.
func desired(name string, uid types.UID, accounts []types.NamespacedName) *rbacv1.ClusterRoleBinding {
	want := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole", Name: name, UID: uid,
			Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false),
		}}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}
	sorted := slices.Clone(accounts)
	slices.SortFunc(sorted, func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, each := range sorted {
		want.Subjects = append(want.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: each.Name, Namespace: each.Namespace})
	}
	return want
}

// isCreatedByUs reports whether a ClusterRoleBinding looks like a binding that this controller creates, with any ServiceAccounts from
// namespaces of seeds as subjects. A binding without subjects can also look like this, but other clients create such bindings, too.
func isCreatedByUs(object *rbacv1.ClusterRoleBinding) bool {
	if len(object.OwnerReferences) != 1 {
		return false
	}
	want := desired(object.Name, object.OwnerReferences[0].UID, nil)
	return sameOwner(object.OwnerReferences[0], want.OwnerReferences[0]) && object.RoleRef == want.RoleRef &&
		!slices.ContainsFunc(object.Subjects, func(s rbacv1.Subject) bool {
			return s.Kind != rbacv1.ServiceAccountKind || !strings.HasPrefix(s.Namespace, corev1beta1.SeedNamespacePrefix)
		})
}

func sameOwner(a, b metav1.OwnerReference) bool {
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID &&
		ptr.Deref(a.Controller, false) == ptr.Deref(b.Controller, false) &&
		ptr.Deref(a.BlockOwnerDeletion, false) == ptr.Deref(b.BlockOwnerDeletion, false)
}

// equalBindings reports whether two bindings are equal in the fields that this controller sets. The order of subjects matters.
func equalBindings(a, b *rbacv1.ClusterRoleBinding) bool {
	return slices.EqualFunc(a.OwnerReferences, b.OwnerReferences, sameOwner) && a.RoleRef == b.RoleRef && slices.Equal(a.Subjects, b.Subjects)
}
