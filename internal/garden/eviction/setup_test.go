package eviction

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestTriggers(t *testing.T) {
	for sentence, tc := range map[string]struct {
		change func(*metav1.PartialObjectMetadata)
		want   bool
	}{
		"a recommendation": {change: func(o *metav1.PartialObjectMetadata) { o.ResourceVersion = "2" }},
		"the spec":         {change: func(o *metav1.PartialObjectMetadata) { o.Generation++ }, want: true},
		"an annotation":    {change: func(o *metav1.PartialObjectMetadata) { o.Annotations = map[string]string{"a": "c"} }, want: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			old := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1", Annotations: map[string]string{"a": "b"}}}
			updated := old.DeepCopy()
			tc.change(updated)
			NewWithT(t).Expect(relevant().Update(event.UpdateEvent{ObjectOld: old, ObjectNew: updated})).To(Equal(tc.want))
		})
	}
	g := NewWithT(t)
	g.Expect(relevant().Create(event.CreateEvent{Object: &metav1.PartialObjectMetadata{}})).To(BeTrue())
	g.Expect(relevant().Delete(event.DeleteEvent{Object: &metav1.PartialObjectMetadata{}})).To(BeFalse())
	g.Expect(relevant().Generic(event.GenericEvent{Object: &metav1.PartialObjectMetadata{}})).To(BeFalse())
}
