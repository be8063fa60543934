package state

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func TestRecreationsAreReportedOnceAndRemovedAfterAMinute(t *testing.T) {
	g := NewWithT(t)
	start := time.Unix(1e9, 0)
	set := types.NamespacedName{Namespace: "sets", Name: "one"}
	ref := func(name string) resourcesv1alpha1.ObjectReference {
		return resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Secret", Namespace: "shop",
			Name: name,
		}}
	}
	memory := NewMemory()
	recreated := func(after time.Duration) []resourcesv1alpha1.ObjectReference {
		refs, unconfirmed := memory.Recreated(set, start.Add(after))
		g.Expect(unconfirmed).To(BeFalse())
		return refs
	}
	recreate := func(name string, after time.Duration) {
		memory.AddRecreation(set, ref(name), start.Add(after))
		memory.ConfirmRecreation(set, ref(name))
	}
	recreate("a", 0)
	recreate("b", 0)
	recreate("a", 30*time.Second)
	reported := recreated(time.Minute)
	g.Expect(reported).To(Equal([]resourcesv1alpha1.ObjectReference{ref("a"), ref("b")}))
	g.Expect(recreated(61 * time.Second)).To(Equal([]resourcesv1alpha1.ObjectReference{ref("a")}))
	recreate("c", 62*time.Second)
	memory.Reported(set, reported)
	g.Expect(recreated(63*time.Second)).To(Equal([]resourcesv1alpha1.ObjectReference{ref("c")}), "deleted after the report")
	g.Expect(recreated(time.Hour)).To(BeEmpty())
	g.Expect(memory.recreations).To(BeEmpty())
}

func TestARecreationIsUnconfirmedUntilTheObjectIsCreated(t *testing.T) {
	g := NewWithT(t)
	start := time.Unix(1e9, 0)
	set := types.NamespacedName{Namespace: "sets", Name: "one"}
	ref := resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{
		APIVersion: "v1", Kind: "Secret", Namespace: "shop",
		Name: "a",
	}}
	memory := NewMemory()
	for _, deleted := range []bool{false, true} {
		memory.AddRecreation(set, ref, start)
		refs, unconfirmed := memory.Recreated(set, start)
		g.Expect(refs).To(BeEmpty())
		g.Expect(unconfirmed).To(BeTrue())
		if deleted {
			memory.ConfirmRecreation(set, ref)
		} else {
			memory.Reported(set, []resourcesv1alpha1.ObjectReference{ref})
		}
		refs, unconfirmed = memory.Recreated(set, start)
		g.Expect(refs).To(HaveLen(map[bool]int{true: 1}[deleted]))
		g.Expect(unconfirmed).To(BeFalse())
	}
}

func TestALateWriteOfAnotherControllerDoesNotAddAReleasedSet(t *testing.T) {
	g := NewWithT(t)
	set := types.NamespacedName{Namespace: "sets", Name: "one"}
	memory := NewMemory()
	memory.Get(set)
	memory.Wrote(set, "7")
	g.Expect(memory.Version(set)).To(Equal("7"))
	memory.Forget(set)
	memory.Wrote(set, "8")
	g.Expect(memory.sets).To(BeEmpty())
}
