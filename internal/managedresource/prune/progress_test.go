package prune

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/observe"
)

func TestADeletionThatAWatchHasNotShownYet(t *testing.T) {
	ref := resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{
		APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns",
		Name: "a",
	}}
	for name, tc := range map[string]struct {
		seen observe.Object
		want bool
	}{
		"as it was when its deletion was requested": {seen: observe.Object{ResourceVersion: "7"}, want: true},
		"changed since then":                        {seen: observe.Object{ResourceVersion: "8"}},
		"being deleted":                             {seen: observe.Object{ResourceVersion: "7", Deleted: time.Unix(1, 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewProgress(false, nil)
			p.record(inventory.RefKey(ref), step{requested: "7"})
			NewWithT(t).Expect(p.wasRequested(inventory.RefKey(ref), tc.seen)).To(Equal(tc.want))
		})
	}
}

func TestADeletionAfterTheClockWasSetBack(t *testing.T) {
	g := NewWithT(t)
	p, key := NewProgress(false, nil), inventory.KeyOf("", "ConfigMap", "ns", "a")
	noon := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	earlier, later := noon.Add(-2*time.Hour), noon.Add(time.Minute)
	for _, tc := range []struct{ now, began time.Time }{{noon, noon}, {later, noon}, {earlier, earlier}, {noon, earlier}} {
		p.begin(tc.now)
		g.Expect(p.Began).To(Equal(tc.began))
		g.Expect(p.waveBegan(key, tc.now)).To(Equal(tc.began))
	}
}
