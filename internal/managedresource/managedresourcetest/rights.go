package managedresourcetest

import (
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Grant gives the controller all rights on resources of a group in the target, in addition to the shipped ones, and waits until the API
// server knows them. Call it before a set needs them: a refused watch is not retried soon.
func (e *Env) Grant(group string, resources ...string) {
	e.T.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: e.Namespace + "-"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{group}, Resources: resources,
			Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
		}},
	}
	e.Expect(e.Target.Create(e.Ctx, role)).To(Succeed())
	e.allow(role.Name, authorizationv1.ResourceAttributes{Group: group, Resource: resources[0], Verb: "delete", Version: "*"})
}

// allow gives the controller a ClusterRole in the target, and waits until it has one of its rights: the API server's authorizer learns of
// roles from its own watches.
func (e *Env) allow(role string, right authorizationv1.ResourceAttributes) {
	e.T.Helper()
	e.Expect(e.Target.Create(e.Ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: e.Namespace + "-" + role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: e.Namespace, Name: account}},
	})).To(Succeed())
	e.Eventually(func() (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + e.Namespace + ":" + account, ResourceAttributes: &right,
		}}
		err := e.Target.Create(e.Ctx, review)
		return review.Status.Allowed, err
	}).WithTimeout(Patience).Should(BeTrue())
}
