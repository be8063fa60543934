package managedresource

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/test/bench/harness"
)

// sayingSet returns a set with the conditions ResourcesHealthy and ResourcesProgressing; "" omits a condition.
func sayingSet(name string, healthy, progressing corev1beta1.ConditionStatus) *resourcesv1alpha1.ManagedResource {
	set := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	set.Status.Conditions = []corev1beta1.Condition{{Type: "ResourcesApplied", Status: "True"}}
	for kind, status := range map[corev1beta1.ConditionType]corev1beta1.ConditionStatus{
		"ResourcesHealthy": healthy, "ResourcesProgressing": progressing,
	} {
		if status != "" {
			set.Status.Conditions = append(set.Status.Conditions, corev1beta1.Condition{Type: kind, Status: status})
		}
	}
	return set
}

func TestVerdictsOf(t *testing.T) {
	for name, tc := range map[string]struct {
		set  *resourcesv1alpha1.ManagedResource
		want string
	}{
		"both are there":        {sayingSet("a", "True", "False"), "ResourcesHealthy True, ResourcesProgressing False"},
		"one is not there":      {sayingSet("a", "Unknown", ""), "ResourcesHealthy Unknown, ResourcesProgressing absent"},
		"a set without status":  {&resourcesv1alpha1.ManagedResource{}, "ResourcesHealthy absent, ResourcesProgressing absent"},
		"an object that is new": {sayingSet("a", "", ""), "ResourcesHealthy absent, ResourcesProgressing absent"},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(verdictsOf(tc.set).String()).To(Equal(tc.want)) })
	}
}

func TestConditionTracker(t *testing.T) {
	g := NewWithT(t)
	second := func(n int) time.Time { return time.Unix(1000+int64(n), 0) }
	set := func(at int, name string, healthy, progressing corev1beta1.ConditionStatus) harness.Event {
		return harness.Event{At: second(at), Kind: managedResourceKind, Object: sayingSet(name, healthy, progressing)}
	}
	deployment := func(at int, name, version string) harness.Event {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
		return harness.Event{At: second(at), Kind: deploymentKind, Object: o}
	}
	tracker := newConditionTracker()
	g.Expect(tracker.see(deployment(0, "a", "1"))).To(BeTrue(), "nothing is expected yet")
	tracker.see(set(1, "a", "False", "True"))

	tracker.expect(verdicts{healthy: "False", progressing: "True"}, "a", "b")
	g.Expect(tracker.explain()).To(Equal("1 say ResourcesHealthy absent, ResourcesProgressing absent"))
	g.Expect(tracker.see(set(2, "b", "False", "True"))).To(BeTrue())

	tracker.expect(verdicts{healthy: "True", progressing: "False"}, "a", "b")
	g.Expect(tracker.see(deployment(3, "a", "7"))).To(BeFalse())
	g.Expect(tracker.see(set(4, "a", "True", "True"))).To(BeFalse(), "one of two conditions")
	g.Expect(tracker.explain()).To(Equal("1 say ResourcesHealthy False, ResourcesProgressing True; 1 say ResourcesHealthy True, " +
		"ResourcesProgressing True"))
	g.Expect(tracker.see(set(5, "a", "True", "False"))).To(BeFalse(), "b is missing")
	g.Expect(tracker.see(set(6, "a", "True", "False"))).To(BeFalse())
	g.Expect(tracker.see(set(7, "c", "True", "False"))).To(BeFalse(), "no step waits for c")
	g.Expect(tracker.see(set(8, "b", "True", "False"))).To(BeTrue())
	g.Expect(tracker.reached).To(Equal(map[string]time.Time{"a": second(5), "b": second(8)}))

	g.Expect(tracker.begin("7", second(4))).To(Equal(second(3)), "the watch told first")
	g.Expect(tracker.begin("7", second(2))).To(Equal(second(2)), "the answer told first")
	g.Expect(tracker.begin("9", second(6))).To(Equal(second(6)), "the watch has not told yet")
}
