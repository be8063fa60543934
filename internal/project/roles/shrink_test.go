package roles

import (
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestShrink(t *testing.T) {
	bound := func(role string, names ...string) *rbacv1.RoleBinding {
		b := &rbacv1.RoleBinding{RoleRef: roleRef(role)}
		for _, each := range names {
			b.Subjects = append(b.Subjects, user(each))
		}
		return b
	}
	for name, tc := range map[string]struct {
		live, desired, want *rbacv1.RoleBinding
		changed             bool
	}{
		"nothing is to be taken": {live: bound("r", "a"), desired: bound("r", "a"), want: bound("r", "a")},
		"nothing is granted":     {live: bound("r", "a"), desired: bound("r", "a", "b"), want: bound("r", "a")},
		"who is not wanted goes": {
			live: bound("r", "a", "x", "b"), desired: bound("r", "b", "c", "a"), want: bound("r", "a", "b"), changed: true,
		},
		"all go that were to have another role": {
			live: bound("other", "a"), desired: bound("r", "a"), want: bound("other"), changed: true,
		},
		"there is no subject to remove, whatever role it was": {live: bound("other"), desired: bound("r", "a"), want: bound("other")},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(Shrink(tc.live, tc.desired)).To(Equal(tc.changed))
			g.Expect(tc.live).To(Equal(tc.want))
		})
	}
	cluster := &rbacv1.ClusterRoleBinding{RoleRef: roleRef("r"), Subjects: []rbacv1.Subject{user("a"), user("x")}}
	NewWithT(t).Expect(Shrink(cluster, &rbacv1.ClusterRoleBinding{RoleRef: roleRef("r"), Subjects: []rbacv1.Subject{user("a")}})).To(BeTrue())
	NewWithT(t).Expect(cluster.Subjects).To(Equal([]rbacv1.Subject{user("a")}))
}
