package roles

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: name}
}

func member(subject rbacv1.Subject, role string, more ...string) corev1beta1.ProjectMember {
	return corev1beta1.ProjectMember{Subject: subject, Role: role, Roles: more}
}

func project(owner *rbacv1.Subject, members ...corev1beta1.ProjectMember) *corev1beta1.Project {
	return &corev1beta1.Project{
		ObjectMeta: metav1.ObjectMeta{Name: "alpha", UID: "1"},
		Spec:       corev1beta1.ProjectSpec{Owner: owner, Members: members},
	}
}

func desired(t *testing.T, p *corev1beta1.Project) []client.Object {
	t.Helper()
	objects, refused := Desired(p, p.Spec.Members, "garden-alpha")
	NewWithT(t).Expect(refused).To(BeEmpty())
	return objects
}

func TestDesiredObjectsAreThoseOfTheGoldenFiles(t *testing.T) {
	robot := rbacv1.Subject{Kind: "ServiceAccount", Namespace: "garden-alpha", Name: "robot"}
	for file, p := range map[string]*corev1beta1.Project{
		"no-members.yaml": project(nil),
		"all-roles.yaml": project(ptr.To(user("o")),
			member(user("a"), "admin"), member(user("u"), "uam"), member(user("v"), "viewer", "admin", "viewer"),
			member(robot, "serviceaccountmanager"), member(rbacv1.Subject{Kind: "User", Name: "w"}, "owner"),
			member(user("e"), "extension:foo", "extension:bar"), member(user("v"), "extension:foo"), member(user("n"), "unknown")),
	} {
		t.Run(file, func(t *testing.T) {
			g := NewWithT(t)
			var text bytes.Buffer
			for _, each := range desired(t, p) {
				document, err := yaml.Marshal(each)
				g.Expect(err).NotTo(HaveOccurred())
				fmt.Fprintf(&text, "--- # %T\n", each)
				text.Write(document)
			}
			path := filepath.Join("testdata", file)
			if *update {
				g.Expect(os.WriteFile(path, text.Bytes(), 0o600)).To(Succeed())
			}
			want, err := os.ReadFile(path)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(text.String()).To(Equal(string(want)))
		})
	}
}

func TestHostileExtensionNamesAreRefusedAloneAndNamed(t *testing.T) {
	for extension, want := range map[string]string{
		"":                      `role "extension:" names no extension`,
		"a b":                   `role "extension:a b" is impossible, because the name of the extension must be a label value: `,
		"/?as":                  `role "extension:/?as" is impossible, `,
		"..":                    `role "extension:.." is impossible, `,
		"x:y":                   `role "extension:x:y" is impossible, `,
		"x\n- apiGroups: ['*']": `role "extension:x\n- apiGroups: ['*']" is impossible, `,
		strings.Repeat("x", 64): `role "extension:` + strings.Repeat("x", 64) + `" is impossible, `,
		`foo","namespace":"bar`: `role "extension:foo\",\"namespace\":\"bar" is impossible, `,
	} {
		t.Run(extension, func(t *testing.T) {
			g := NewWithT(t)
			p := project(nil, member(user("e"), "extension:"+extension, "extension:fine"))
			objects, refused := Desired(p, p.Spec.Members, "garden-alpha")
			g.Expect(refused).To(ConsistOf(MatchError(HavePrefix(want))))
			g.Expect(names(objects)[11:]).
				To(Equal([]string{"gardener.cloud:extension:project:alpha:fine", "gardener.cloud:extension:project:alpha:fine"}))
		})
	}
}

func names(objects []client.Object) []string {
	var found []string
	for _, each := range objects {
		found = append(found, each.GetName())
	}
	return found
}

// stored is an object as an API server returns it.
func stored(o client.Object, change ...func(client.Object)) client.Object {
	s := o.DeepCopyObject().(client.Object) //nolint:errcheck // it is one
	s.SetCreationTimestamp(metav1.Unix(1, 0))
	s.SetUID("uid")
	s.SetResourceVersion("7")
	s.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "x"}})
	for _, each := range change {
		each(s)
	}
	return s
}

func cached(t *testing.T, o client.Object) client.Object {
	t.Helper()
	trimmed, err := Trim(o)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return trimmed.(client.Object) //nolint:errcheck // it is one
}

func TestWhatIsDesiredIsFoundTheSameInTheCache(t *testing.T) {
	for _, each := range desired(t, project(ptr.To(user("o")), member(user("a"), "admin", "extension:foo"))) {
		g := NewWithT(t)
		once := cached(t, stored(each))
		g.Expect(Same(once, each)).To(BeTrue(), each.GetName())
		g.Expect(Owner(once)).To(Equal("alpha"))
		g.Expect(cached(t, once)).To(Equal(once), "a cache may transform twice")
	}
}

func TestEveryChangeIsSeenInTheCache(t *testing.T) {
	all := desired(t, project(ptr.To(user("o")), member(user("a"), "admin", "extension:foo")))
	clusterRole, clusterRoleBinding, binding, aggregated := all[0], all[1], all[8], all[11]
	for name, tc := range map[string]struct {
		object client.Object
		change func(client.Object)
		same   bool // nothing to repair
		quiet  bool // nothing to reconcile
	}{
		"nothing":              {binding, func(client.Object) {}, true, true},
		"annotations":          {binding, func(o client.Object) { o.SetAnnotations(map[string]string{"a": "b"}) }, true, true},
		"a label more":         {binding, func(o client.Object) { o.SetLabels(map[string]string{"a": "b"}) }, false, true},
		"an owner less":        {binding, func(o client.Object) { o.SetOwnerReferences(nil) }, false, false},
		"another owner's UID":  {binding, func(o client.Object) { o.GetOwnerReferences()[0].UID = "2" }, false, false},
		"a foreign controller": {binding, func(o client.Object) { o.GetOwnerReferences()[0].APIVersion = "foreign/v1" }, false, false},
		"subjects of a RoleBinding": {binding, func(o client.Object) {
			o.(*rbacv1.RoleBinding).Subjects = []rbacv1.Subject{user("mallory")} //nolint:errcheck // it is one
		}, false, false},
		"subjects of a ClusterRoleBinding": {clusterRoleBinding, func(o client.Object) {
			o.(*rbacv1.ClusterRoleBinding).Subjects = nil //nolint:errcheck // it is one
		}, false, false},
		"the role of a RoleBinding": {binding, func(o client.Object) {
			o.(*rbacv1.RoleBinding).RoleRef.Name = "cluster-admin" //nolint:errcheck // it is one
		}, false, false},
		"rules of a ClusterRole": {clusterRole, func(o client.Object) {
			o.(*rbacv1.ClusterRole).Rules[0].Verbs = []string{"*"} //nolint:errcheck // it is one
		}, false, false},
		"rules that come from elsewhere instead": {clusterRole, func(o client.Object) {
			o.(*rbacv1.ClusterRole).AggregationRule = &rbacv1.AggregationRule{} //nolint:errcheck // it is one
		}, false, false},
		"rules of an aggregated ClusterRole": {aggregated, func(o client.Object) {
			o.(*rbacv1.ClusterRole).Rules = []rbacv1.PolicyRule{{Verbs: []string{"get"}}} //nolint:errcheck // it is one
		}, true, true},
		"what an aggregated ClusterRole selects": {aggregated, func(o client.Object) {
			o.(*rbacv1.ClusterRole).AggregationRule.ClusterRoleSelectors[0].MatchLabels = nil //nolint:errcheck // it is one
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			before, after := cached(t, stored(tc.object)), cached(t, stored(tc.object, tc.change))
			same, err := Same(after, tc.object)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(same).To(Equal(tc.same), "repair")
			g.Expect(GrantsSame(before, after)).To(Equal(tc.quiet), "look")

			live := stored(tc.object, tc.change)
			g.Expect(Overlay(live, tc.object)).To(Equal(name == "the role of a RoleBinding"), "recreate")
			if name != "the role of a RoleBinding" {
				g.Expect(Same(cached(t, live), tc.object)).To(BeTrue(), "repaired")
			}
		})
	}
}

func TestTheCacheKeepsNothingElse(t *testing.T) {
	g := NewWithT(t)
	annotated := func(o client.Object) { o.SetAnnotations(map[string]string{"a": "b"}) }
	foreign := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "foreign", Labels: map[string]string{"a": "b"}},
		RoleRef:    rbacv1.RoleRef{Name: "x"}, Subjects: []rbacv1.Subject{user("x")},
	}
	g.Expect(shown(cached(t, stored(foreign, annotated)))).To(Equal(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "foreign", ResourceVersion: "7",
	}}))
	own, ok := shown(cached(t, stored(desired(t, project(nil, member(user("e"), "extension:foo")))[12], annotated))).(*rbacv1.RoleBinding)
	g.Expect(ok).To(BeTrue())
	g.Expect(own.GenerateName).To(And(HaveLen(24+5), HaveSuffix("alpha")))
	own.GenerateName = ""
	g.Expect(own).To(Equal(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace: "garden-alpha", Name: "gardener.cloud:extension:project:alpha:foo", UID: "uid", ResourceVersion: "7",
		Labels: map[string]string{"gardener.cloud/role": "extension-project-role", "project.gardener.cloud/name": "alpha"},
	}}))
}

func TestOverlayKeepsWhatOthersMayChange(t *testing.T) {
	g := NewWithT(t)
	role := desired(t, project(nil, member(user("e"), "extension:foo")))[11]
	rules := []rbacv1.PolicyRule{{APIGroups: []string{"x"}, Resources: []string{"y"}, Verbs: []string{"get"}}}
	live := stored(role, func(o client.Object) {
		o.SetLabels(nil)
		o.SetAnnotations(map[string]string{"a": "b"})
		o.(*rbacv1.ClusterRole).Rules = rules //nolint:errcheck // it is one
	})
	Overlay(live, role)
	g.Expect(live).To(Equal(stored(role, func(o client.Object) {
		o.SetAnnotations(map[string]string{"a": "b"})
		o.(*rbacv1.ClusterRole).Rules = rules //nolint:errcheck // it is one
	})))
}

func TestStaleRolesHaveBothLabelsAndAreNotDesired(t *testing.T) {
	g := NewWithT(t)
	labelled := func(name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Labels: labels}
	}
	const prefix = "gardener.cloud:extension:project:alpha:"
	wanted := desired(t, project(nil, member(user("e"), "extension:foo")))
	bindings := []rbacv1.RoleBinding{
		{ObjectMeta: labelled(prefix+"foo", ExtensionLabels("alpha"))},
		{ObjectMeta: labelled(prefix+"old", ExtensionLabels("alpha"))},
		{ObjectMeta: labelled("foo", ExtensionLabels("alpha"))},
		{ObjectMeta: labelled(prefix+"half", map[string]string{"project.gardener.cloud/name": "alpha"})},
		{ObjectMeta: labelled("beta's", ExtensionLabels("beta"))},
	}
	clusterRoles := []rbacv1.ClusterRole{
		{ObjectMeta: labelled(prefix+"old", ExtensionLabels("alpha"))},
		{ObjectMeta: labelled(prefix+"foo", ExtensionLabels("alpha"))},
		{ObjectMeta: labelled("beta's", ExtensionLabels("beta"))},
	}
	g.Expect(Stale("alpha", wanted, bindings, clusterRoles)).To(Equal([]client.Object{&bindings[1], &bindings[2], &clusterRoles[0]}))
}
