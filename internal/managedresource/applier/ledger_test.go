package applier

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func TestLossesAreToldOnceAndForgottenAfterAMinute(t *testing.T) {
	g := NewWithT(t)
	start := time.Unix(1e9, 0)
	set := types.NamespacedName{Namespace: "sets", Name: "one"}
	ref := func(name string) resourcesv1alpha1.ObjectReference {
		return resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: name}}
	}
	changes := NewChanges()
	ledger := changes.Ledger("")
	recreated := func(after time.Duration) []resourcesv1alpha1.ObjectReference {
		refs, open := ledger.Recreated(set, start.Add(after))
		g.Expect(open).To(BeFalse())
		return refs
	}
	lost := func(name string, after time.Duration) {
		changes.memory.lost(set, ref(name), start.Add(after))
		changes.memory.settled(set, ref(name))
	}
	lost("a", 0)
	lost("b", 0)
	lost("a", 30*time.Second)
	told := recreated(time.Minute)
	g.Expect(told).To(Equal([]resourcesv1alpha1.ObjectReference{ref("a"), ref("b")}))
	g.Expect(recreated(61 * time.Second)).To(Equal([]resourcesv1alpha1.ObjectReference{ref("a")}))
	lost("c", 62*time.Second)
	ledger.Reported(set, told)
	g.Expect(recreated(63*time.Second)).To(Equal([]resourcesv1alpha1.ObjectReference{ref("c")}), "lost after it was told")
	g.Expect(recreated(time.Hour)).To(BeEmpty())
	g.Expect(changes.memory.recreated).To(BeEmpty())
}

func TestALossIsOpenUntilTheObjectIsMadeAgain(t *testing.T) {
	g := NewWithT(t)
	start := time.Unix(1e9, 0)
	set := types.NamespacedName{Namespace: "sets", Name: "one"}
	ref := resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "a"}}
	changes := NewChanges()
	ledger := changes.Ledger("")
	for _, deleted := range []bool{false, true} {
		changes.memory.lost(set, ref, start)
		refs, open := ledger.Recreated(set, start)
		g.Expect(refs).To(BeEmpty())
		g.Expect(open).To(BeTrue())
		if deleted {
			changes.memory.settled(set, ref)
		} else {
			changes.memory.reported(set, []resourcesv1alpha1.ObjectReference{ref})
		}
		refs, open = ledger.Recreated(set, start)
		g.Expect(refs).To(HaveLen(map[bool]int{true: 1}[deleted]))
		g.Expect(open).To(BeFalse())
	}
}

func TestALateWriteOfAnotherControllerDoesNotBringBackASet(t *testing.T) {
	g := NewWithT(t)
	set := types.NamespacedName{Namespace: "sets", Name: "one"}
	changes := NewChanges()
	ledger := changes.Ledger("")
	changes.memory.of(set)
	ledger.Wrote(set, "7")
	g.Expect(changes.memory.version(set)).To(Equal("7"))
	changes.memory.forget(set)
	ledger.Wrote(set, "8")
	g.Expect(changes.memory.sets).To(BeEmpty())
}
