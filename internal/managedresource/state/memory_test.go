package state

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func TestADeletedSetThatACacheStillShowsIsNotReconciled(t *testing.T) {
	name := types.NamespacedName{Namespace: "ns", Name: "set"}
	shown := func(uid types.UID) *resourcesv1alpha1.ManagedResource {
		return &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, UID: uid}}
	}
	g, m := NewWithT(t), NewMemory()
	g.Expect(m.Ended(shown("one"))).To(BeFalse(), "it is unknown")
	m.Get(name).version = "7"
	g.Expect(m.Ended(shown(""))).To(BeFalse(), "it has not ended")
	m.Get(name).EndedUID = "one"
	m.ForgetContent(name)
	g.Expect(m.Ended(shown("one"))).To(BeTrue(), "the UID is kept")
	g.Expect(m.Ended(shown("two"))).To(BeFalse(), "it is another set of that name")
	m.Forget(name)
	g.Expect(m.Ended(shown("one"))).To(BeFalse(), "the cache has shown its deletion")
}

func TestASetIsNotInSyncWhileAnAuditIsOwed(t *testing.T) {
	name := types.NamespacedName{Namespace: "ns", Name: "set"}
	g, m := NewWithT(t), NewMemory()
	m.Get(name).InSyncVersion = "7"
	m.MarkConcluded(name)
	g.Expect(m.InSync(name)).NotTo(BeNil())
	m.Get(name).AuditOwed = true
	g.Expect(m.InSync(name)).To(BeNil())
}
