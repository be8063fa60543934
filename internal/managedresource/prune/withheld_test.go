package prune

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
)

func TestResemble(t *testing.T) {
	for name, tc := range map[string]struct {
		one, other inventory.Key
		want       bool
	}{
		"another kind":                 {inventory.KeyOf("", "ConfigMap", "ns", "a"), inventory.KeyOf("", "ConfgMap", "ns", "a"), true},
		"another group":                {inventory.KeyOf("apps", "Deployment", "ns", "a"), inventory.KeyOf("app", "Deployment", "ns", "a"), true},
		"another namespace":            {inventory.KeyOf("", "ConfigMap", "ns", "a"), inventory.KeyOf("", "ConfigMap", "n", "a"), true},
		"another name":                 {inventory.KeyOf("", "ConfigMap", "ns", "a"), inventory.KeyOf("", "ConfigMap", "ns", "b"), true},
		"another kind of a Namespace":  {inventory.KeyOf("", "Namespace", "", "a"), inventory.KeyOf("", "Namspace", "default", "a"), true},
		"another name and namespace":   {inventory.KeyOf("", "ConfigMap", "ns", "a"), inventory.KeyOf("", "ConfigMap", "n", "b"), false},
		"another kind and name":        {inventory.KeyOf("", "ConfigMap", "ns", "a"), inventory.KeyOf("", "Secret", "ns", "b"), false},
		"another kind and namespace":   {inventory.KeyOf("", "ConfigMap", "ns", "a"), inventory.KeyOf("", "Secret", "n", "a"), false},
		"the same name, cluster-wide":  {inventory.KeyOf("", "ConfigMap", "ns", "a"), inventory.KeyOf("", "Namespace", "", "a"), false},
		"no name":                      {inventory.KeyOf("", "ConfigMap", "ns", "a"), inventory.KeyOf("", "ConfigMap", "", ""), true},
		"no kind":                      {inventory.KeyOf("", "ConfigMap", "ns", "a"), inventory.KeyOf("", "", "ns", "a"), true},
		"two of a cluster-scoped kind": {inventory.KeyOf("", "Namespace", "", "a"), inventory.KeyOf("", "Namespace", "", "b"), true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(Resemble(tc.one, tc.other)).To(Equal(tc.want))
			g.Expect(Resemble(tc.other, tc.one)).To(Equal(tc.want))
		})
	}
}

func TestWithhold(t *testing.T) {
	g := NewWithT(t)
	planned := func(name string, err error) plan.Object {
		return plan.Decide(plan.Wanted{ID: plan.ID{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: name}, Refusal: err.Error()})
	}
	obsolete := []resourcesv1alpha1.ObjectReference{reference("a"), reference("b"), reference("c"), reference("d"), reference("e")}
	obsolete[4].Namespace = "other"
	w := Withhold(obsolete, []plan.Object{planned("new", errors.New("refused"))})
	g.Expect(w.Without(obsolete)).To(Equal(obsolete[4:]))
	g.Expect(w.Reason(obsolete[0])).To(Equal("the set contains v1 ConfigMap ns/new instead, which the API server has not accepted yet"))
	g.Expect(w.Reason(obsolete[4])).To(BeEmpty())
	g.Expect(w.Note(inventory.KeyOf("", "ConfigMap", "ns", "new"), errors.New("refused"))).To(Equal("; until it is applied, " +
		"these objects, which the set no longer contains, are not deleted: ConfigMap ns/a, ConfigMap ns/b, ConfigMap ns/c, 1 more"))
	g.Expect(w.Note(inventory.KeyOf("", "ConfigMap", "ns", "new"), errors.New(`admission webhook "x" denied the request: taken`))).
		To(HaveSuffix("set the annotation espalier.dev/delete-untested=true in the manifest to delete it first"))
	g.Expect(w.Note(inventory.KeyOf("", "ConfigMap", "ns", "another"), errors.New("refused"))).To(BeEmpty())
	g.Expect(Withhold(obsolete, nil).IsEmpty()).To(BeTrue())
	g.Expect(Withheld{}.Without(obsolete)).To(Equal(obsolete))
}
