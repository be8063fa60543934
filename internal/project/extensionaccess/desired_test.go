package extensionaccess

import (
	"maps"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/reflector"
)

const selectorKey = "authorization.gardener.cloud/extensions-serviceaccount-selector"

func TestSelectorsAreReadStrictly(t *testing.T) {
	const parsing = "failed computing subjects for ClusterRoleBinding: failed parsing label selector: "
	const unmarshalling = parsing + "failed unmarshalling extensions service account selector: "
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"none":               {nil, parsing + "no service account selector annotations present"},
		"empty":              {map[string]string{selectorKey: ""}, unmarshalling + "EOF"},
		"no JSON":            {map[string]string{selectorKey: "app=x"}, unmarshalling + "invalid character 'a' looking for beginning of value"},
		"null":               {map[string]string{selectorKey: "null"}, unmarshalling + "null is no selector"},
		"a misspelled field": {map[string]string{selectorKey: `{"matchlabel":{}}`}, unmarshalling + `json: unknown field "matchlabel"`},
		"two objects":        {map[string]string{selectorKey: `{}{}`}, unmarshalling + "there is something behind the object"},
		"an operator that is none": {
			map[string]string{selectorKey: `{"matchExpressions":[{"key":"a","operator":"Is"}]}`},
			parsing + `"Is" is not a valid label selector operator`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			selector, err := parseSelector(tc.annotations)
			g.Expect(err).To(MatchError(tc.want))
			g.Expect(selector).To(BeNil())
		})
	}
	g := NewWithT(t)
	everything, err := parseSelector(map[string]string{selectorKey: " {} "})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(everything.Matches(labels.Set{"any": "thing"})).To(BeTrue())
}

func FuzzParseSelector(f *testing.F) {
	for _, each := range []string{
		"", "{}", "null", `{"matchLabels":{"a":"b"}}`, `{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}`,
	} {
		f.Add(each)
	}
	f.Fuzz(func(t *testing.T, text string) {
		selector, err := parseSelector(map[string]string{selectorKey: text})
		NewWithT(t).Expect(selector == nil).To(Equal(err != nil))
	})
}

// have returns a binding as the controller creates it, with changes.
func have(change ...func(*rbacv1.ClusterRoleBinding)) *rbacv1.ClusterRoleBinding {
	object := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "r", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "r", UID: "1", Controller: ptr.To(true),
			BlockOwnerDeletion: ptr.To(false),
		}}},
		RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "r"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "seed-a", Name: "x"}},
	}
	for _, each := range change {
		each(object)
	}
	return object
}

func noOwner(b *rbacv1.ClusterRoleBinding)    { b.OwnerReferences = nil }
func otherOwner(b *rbacv1.ClusterRoleBinding) { b.OwnerReferences[0].UID = "2" }
func otherRole(b *rbacv1.ClusterRoleBinding)  { b.RoleRef.Name = "view" }
func noSubjects(b *rbacv1.ClusterRoleBinding) { b.Subjects = nil }
func deleting(b *rbacv1.ClusterRoleBinding)   { b.DeletionTimestamp = &metav1.Time{} }
func alsoAUser(b *rbacv1.ClusterRoleBinding) {
	b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: "User", Name: "u"})
}
func elsewhere(b *rbacv1.ClusterRoleBinding) { b.Subjects[0].Namespace = "garden-a" }
func secondOwner(b *rbacv1.ClusterRoleBinding) {
	b.OwnerReferences = append(b.OwnerReferences, b.OwnerReferences[0])
}

func TestPlan(t *testing.T) {
	want := desired("r", "1", []types.NamespacedName{{Namespace: "seed-a", Name: "x"}})
	for name, tc := range map[string]struct {
		have *rbacv1.ClusterRoleBinding
		want step
	}{
		"there is none":                       {nil, create},
		"it is as desired":                    {have(), nothing},
		"its subjects differ":                 {have(noSubjects), patch},
		"it has an owner more":                {have(secondOwner), patch},
		"it has no owner":                     {have(noOwner), takeOver},
		"a former role of that name owns it":  {have(otherOwner), takeOver},
		"it is ours and binds another role":   {have(otherRole), replace},
		"it has no owner and binds another":   {have(otherRole, noOwner), refuse},
		"it is being deleted":                 {have(deleting, noSubjects), nothing},
		"it is foreign, and is being deleted": {have(deleting, noOwner, otherRole), nothing},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(plan(tc.have, want)).To(Equal(tc.want)) })
	}
}

func TestOnlyBindingsThatWereOursAreRemoved(t *testing.T) {
	of := func(change ...func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
		object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "1"}}
		for _, each := range change {
			each(object)
		}
		return object
	}
	labelled := func(o *metav1.PartialObjectMetadata) {
		o.Labels = map[string]string{"authorization.gardener.cloud/custom-extensions-permissions": "true"}
	}
	annotated := func(o *metav1.PartialObjectMetadata) { o.Annotations = map[string]string{selectorKey: "x"} }
	gone := func(o *metav1.PartialObjectMetadata) { o.DeletionTimestamp = &metav1.Time{} }
	for name, tc := range map[string]struct {
		have *rbacv1.ClusterRoleBinding
		of   *metav1.PartialObjectMetadata
		want bool
	}{
		"the role has lost its label":                  {have(), of(), true},
		"the role has lost its label, and none had it": {have(noSubjects), of(annotated), true},
		"nothing says that the binding was ours":       {have(noSubjects), of(), false},
		"the role is labelled":                         {have(), of(labelled), false},
		"the role is gone":                             {have(), nil, false},
		"the role is going":                            {have(), of(gone), false},
		"the role is another one of that name":         {have(otherOwner), of(annotated), false},
		"another subject is bound too":                 {have(alsoAUser), of(annotated), false},
		"who is bound is in no seed":                   {have(elsewhere), of(annotated), false},
		"it has two owners":                            {have(secondOwner), of(annotated), false},
		"it binds another role":                        {have(otherRole), of(annotated), false},
		"it is being deleted":                          {have(deleting), of(annotated), false},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(isLeftover(tc.have, tc.of)).To(Equal(tc.want)) })
	}
}

func TestWatchKeepsNothingOfOtherServiceAccounts(t *testing.T) {
	g := NewWithT(t)
	var reported []string
	account := func(namespace string, labels map[string]string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "a", Labels: labels, Annotations: map[string]string{"big": "one"},
		}}
	}
	table := &reflector.Table[labels.Set]{
		Listed: func(map[types.NamespacedName]labels.Set) { reported = append(reported, "listed") },
		Changed: func(key types.NamespacedName, before, after *labels.Set) {
			reported = append(reported, key.Namespace+" "+ptr.Deref(before, nil).String()+" "+ptr.Deref(after, nil).String())
		},
	}
	store := reflector.NewStore(keepAccount, table)
	list := []any{account("elsewhere", nil), account("seed-b", map[string]string{"x": "1"}), account("seed-a", map[string]string{"x": "1"})}
	g.Expect(store.Replace(list, "5")).To(Succeed())
	g.Expect(store.Update(account("seed-a", map[string]string{"x": "2"}))).To(Succeed())
	g.Expect(store.Add(account("seed-c", nil))).To(Succeed())
	g.Expect(store.Add(account("elsewhere", nil))).To(Succeed())
	g.Expect(store.Delete(account("seed-b", nil))).To(Succeed())
	g.Expect(store.Update("no object")).NotTo(Succeed())
	g.Expect(reported).To(Equal([]string{"listed", "seed-a x=1 x=2", "seed-c  ", "elsewhere  ", "seed-b x=1 "}))
	g.Expect(maps.Collect(table.All())).To(Equal(map[types.NamespacedName]labels.Set{
		{Namespace: "seed-a", Name: "a"}: {"x": "2"}, {Namespace: "seed-c", Name: "a"}: nil,
	}))
}
