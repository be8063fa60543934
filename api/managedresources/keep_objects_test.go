package managedresources_test

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/api/managedresources"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func TestSetKeepObjects(t *testing.T) {
	for name, keep := range map[string]bool{"on": true, "off": false} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := newCluster(t, managedResourceNamed("mr", "s1"))
			g.Expect(managedresources.SetKeepObjects(t.Context(), c, "ns", "mr", keep)).To(Succeed())
			want := managedResourceNamed("mr", "s1")
			want.Spec.KeepObjects = &keep
			g.Expect(c.managedResources(t)).To(BeComparableTo(map[string]resourcesv1alpha1.ManagedResource{"ns/mr": *want}))
		})
	}
	t.Run("of a ManagedResource that does not exist", func(t *testing.T) {
		NewWithT(t).Expect(managedresources.SetKeepObjects(t.Context(), newCluster(t), "ns", "mr", true)).To(Succeed())
	})
	t.Run("when the API server refuses", func(t *testing.T) {
		c := newCluster(t)
		c.fail["patch ManagedResource ns/mr"] = errors.New("broken")
		NewWithT(t).Expect(managedresources.SetKeepObjects(t.Context(), c, "ns", "mr", true)).
			To(MatchError("set keepObjects of managed resource ns/mr: broken"))
	})
}

func TestCheckIfManagedResourcesExist(t *testing.T) {
	classless, seed := managedResourceNamed("none"), managedResourceNamed("seed")
	seed.Spec.Class = new("seed")
	seed.Namespace = "elsewhere"

	for name, tc := range map[string]struct {
		have  []*resourcesv1alpha1.ManagedResource
		class *string
		want  bool
	}{
		"a class that is there, in any namespace": {
			have: []*resourcesv1alpha1.ManagedResource{classless, seed}, class: new("seed"), want: true,
		},
		"a class that is not there": {
			have: []*resourcesv1alpha1.ManagedResource{classless, seed}, class: new("test"),
		},
		"none at all":                  {have: []*resourcesv1alpha1.ManagedResource{classless, seed}, want: true},
		"none, where all have a class": {have: []*resourcesv1alpha1.ManagedResource{seed}},
		"the name of the default class, which is not the same as none": {
			have: []*resourcesv1alpha1.ManagedResource{classless}, class: new("resources"),
		},
		"the empty class, which is not the same as none": {have: []*resourcesv1alpha1.ManagedResource{classless}, class: new("")},
		"an empty cluster": {},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := newCluster(t)
			for _, mr := range tc.have {
				g.Expect(c.Create(t.Context(), mr.DeepCopy())).To(Succeed())
			}
			got, err := managedresources.CheckIfManagedResourcesExist(t.Context(), c, tc.class)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(tc.want))
		})
	}
}
