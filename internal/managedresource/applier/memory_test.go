package applier

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/observe"
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

func TestADeletionThatAWatchHasNotShownYet(t *testing.T) {
	ref := resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "a"}}
	for name, tc := range map[string]struct {
		seen observe.Object
		want bool
	}{
		"as it was when its deletion was requested": {seen: observe.Object{ResourceVersion: "7"}, want: true},
		"changed since then":                        {seen: observe.Object{ResourceVersion: "8"}},
		"being deleted":                             {seen: observe.Object{ResourceVersion: "7", Deleted: time.Unix(1, 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &set{removal: removal{requested: map[inventory.Key]string{inventory.RefKey(ref): "7"}}}
			w := &removing{pass: &pass{set: s}}
			NewWithT(t).Expect(w.wasRequested(ref, tc.seen)).To(Equal(tc.want))
		})
	}
}
