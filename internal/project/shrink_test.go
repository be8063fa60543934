package project

import (
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

func TestCachesOfProjectsAndNamespacesLoseNothingButManagedFields(t *testing.T) {
	subject := rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "a"}
	full := metav1.ObjectMeta{
		Name: "n", UID: "1", ResourceVersion: "7", Generation: 2, CreationTimestamp: metav1.Unix(1, 0), Finalizers: []string{"f"},
		Labels: map[string]string{"l": "1", "m": "2"}, Annotations: map[string]string{"x": "y"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v", Kind: "k", Name: "o", UID: "2", Controller: ptr.To(true)}},
	}
	project := &corev1beta1.Project{
		ObjectMeta: full,
		Spec: corev1beta1.ProjectSpec{
			Owner: &subject, CreatedBy: ptr.To(subject), Namespace: ptr.To("garden-n"), Description: ptr.To("d"), Purpose: ptr.To("p"),
			Members: []corev1beta1.ProjectMember{{Subject: subject, Role: "admin", Roles: []string{"owner", "viewer"}}},
		},
		Status: corev1beta1.ProjectStatus{Phase: "Ready", ObservedGeneration: 2, LastActivityTimestamp: ptr.To(metav1.Unix(9, 0))},
	}
	bare := &corev1beta1.Project{}
	namespace := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"}, ObjectMeta: full}
	g := NewWithT(t)
	for _, want := range []*corev1beta1.Project{project, bare} {
		stored := want.DeepCopy()
		stored.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
		g.Expect(shrinkProject(stored)).To(Equal(want))
	}
	for _, want := range []*metav1.PartialObjectMetadata{namespace, {}} {
		stored := want.DeepCopy()
		stored.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
		g.Expect(shrinkNamespace(stored)).To(Equal(want))
	}
}
