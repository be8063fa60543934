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
	changes.memory.lost(set, ref("a"), start)
	changes.memory.lost(set, ref("b"), start)
	changes.memory.lost(set, ref("a"), start.Add(30*time.Second))
	told := ledger.Recreated(set, start.Add(time.Minute))
	g.Expect(told).To(Equal([]resourcesv1alpha1.ObjectReference{ref("a"), ref("b")}))
	g.Expect(ledger.Recreated(set, start.Add(61*time.Second))).To(Equal([]resourcesv1alpha1.ObjectReference{ref("a")}))
	changes.memory.lost(set, ref("c"), start.Add(62*time.Second))
	ledger.Reported(set, told)
	g.Expect(ledger.Recreated(set, start.Add(63*time.Second))).To(Equal([]resourcesv1alpha1.ObjectReference{ref("c")}), "lost after it was told")
	g.Expect(ledger.Recreated(set, start.Add(time.Hour))).To(BeEmpty())
	g.Expect(changes.memory.recreated).To(BeEmpty())
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
