package applier

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
	g, m := NewWithT(t), newMemory()
	g.Expect(m.ended(shown("one"))).To(BeFalse(), "it is unknown")
	m.get(name).version = "7"
	g.Expect(m.ended(shown(""))).To(BeFalse(), "it has not ended")
	m.get(name).endedUID = "one"
	m.forgetContent(name)
	g.Expect(m.ended(shown("one"))).To(BeTrue(), "the UID is kept")
	g.Expect(m.ended(shown("two"))).To(BeFalse(), "it is another set of that name")
	m.forget(name)
	g.Expect(m.ended(shown("one"))).To(BeFalse(), "the cache has shown its deletion")
}

func TestASetIsNotInSyncWhileAnAuditIsOwed(t *testing.T) {
	name := types.NamespacedName{Namespace: "ns", Name: "set"}
	g, m := NewWithT(t), newMemory()
	m.get(name).inSyncVersion = "7"
	m.markConcluded(name)
	g.Expect(m.inSync(name)).NotTo(BeNil())
	m.get(name).auditOwed = true
	g.Expect(m.inSync(name)).To(BeNil())
}
