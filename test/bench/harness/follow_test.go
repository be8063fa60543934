package harness

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestUntilGoneCountsDeletions(t *testing.T) {
	g := NewWithT(t)
	done := UntilGone(2)
	g.Expect(done(Event{Deleted: true})).To(BeFalse())
	g.Expect(done(Event{})).To(BeFalse())
	g.Expect(done(Event{Deleted: true})).To(BeTrue())
}

func TestUntilAllCountsNamesOnce(t *testing.T) {
	g := NewWithT(t)
	done := UntilAll(2, func(e Event) string { return e.Object.GetName() })
	of := func(name string) Event { return Event{Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}} }
	g.Expect(done(of("a"))).To(BeFalse())
	g.Expect(done(of("a"))).To(BeFalse())
	g.Expect(done(of(""))).To(BeFalse(), "it does not count")
	g.Expect(done(of("b"))).To(BeTrue())
}
