package health

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var set = types.NamespacedName{Namespace: "sets", Name: "one"}

func verdictsFor(clk *testingclock.FakePassiveClock) *Verdicts {
	return NewVerdicts(clk, func(kind schema.GroupKind, namespace, name string) []types.NamespacedName {
		if kind == (schema.GroupKind{Group: "apps", Kind: "Deployment"}) && namespace == "target" && name == "web" {
			return []types.NamespacedName{set, {Namespace: "sets", Name: "two"}}
		}
		return nil
	})
}

func TestVerdictsWakeTheSetsOfAnObject(t *testing.T) {
	g := NewWithT(t)
	v := verdictsFor(testingclock.NewFakePassiveClock(noon))
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	v.Deployment("target", "web") // there is no queue yet: the first check of every set needs no event
	v.queue.Store(&queue)
	v.Object(schema.GroupKind{Kind: "Pod"}, "target", "web")
	v.Deployment("target", "other")
	g.Expect(queue.Len()).To(BeZero())
	v.Deployment("target", "web")
	g.Expect(queue.Len()).To(Equal(2))
}

// Latency is measured from the oldest event that is not reported yet.
func TestVerdictsRememberTheOldestEvent(t *testing.T) {
	g := NewWithT(t)
	clk := testingclock.NewFakePassiveClock(noon)
	v := verdictsFor(clk)
	_, waited := v.takeReceived(set)
	g.Expect(waited).To(BeFalse())
	v.Set(set)
	clk.SetTime(noon.Add(time.Second))
	v.Set(set)
	since, waited := v.takeReceived(set)
	g.Expect(waited).To(BeTrue())
	g.Expect(since).To(Equal(noon))
	_, waited = v.takeReceived(set)
	g.Expect(waited).To(BeFalse(), "it is reported")
	v.Set(set)
	v.forget(set)
	_, waited = v.takeReceived(set)
	g.Expect(waited).To(BeFalse(), "it is of no interest any more")
}

// After a restore of the source, the version that was written never comes back.
func TestVerdictsWaitForACacheThatIsBehindOnceInAPeriodAfterAWhile(t *testing.T) {
	g := NewWithT(t)
	v := verdictsFor(testingclock.NewFakePassiveClock(noon))
	g.Expect(v.cacheBehind(set, noon, time.Minute)).To(Equal(20 * time.Millisecond))
	g.Expect(v.cacheBehind(set, noon.Add(5*time.Second), time.Minute)).To(Equal(20 * time.Millisecond))
	g.Expect(v.cacheBehind(set, noon.Add(6*time.Second), time.Minute)).To(Equal(time.Minute))
	g.Expect(v.cacheBehind(set, noon.Add(time.Hour), time.Minute)).To(Equal(time.Minute))
	v.cacheCurrent(set)
	g.Expect(v.cacheBehind(set, noon.Add(time.Hour), time.Minute)).To(Equal(20*time.Millisecond), "it is behind another write")
	v.forget(set)
	g.Expect(v.sets).To(BeEmpty())
}

func TestVerdictsWaitForAWatchButNotForEver(t *testing.T) {
	g := NewWithT(t)
	v := verdictsFor(testingclock.NewFakePassiveClock(noon))
	g.Expect(v.waitedEnough(set, noon)).To(BeFalse(), "no condition waits")
	g.Expect(v.wait(set, noon)).To(Equal(time.Second))
	g.Expect(v.wait(set, noon.Add(4*time.Second))).To(Equal(time.Second))
	g.Expect(v.waitedEnough(set, noon.Add(5*time.Second))).To(BeFalse())
	g.Expect(v.waitedEnough(set, noon.Add(6*time.Second))).To(BeTrue(), "from the first wait")
	v.sawAll(set)
	g.Expect(v.waitedEnough(set, noon.Add(6*time.Second))).To(BeFalse())
	v.wait(set, noon)
	v.forget(set)
	g.Expect(v.waitedEnough(set, noon.Add(time.Hour))).To(BeFalse())
}

// A set that rolls out changes its messages with each object that is ready.
func TestVerdictsPauseLongerIfOnlyMessagesChange(t *testing.T) {
	g := NewWithT(t)
	v := verdictsFor(testingclock.NewFakePassiveClock(noon))
	g.Expect(v.pause(set, noon, writeInterval)).To(BeZero(), "nothing was written yet")
	v.wrote(set, noon)
	g.Expect(v.pause(set, noon, writeInterval)).To(Equal(time.Second))
	g.Expect(v.pause(set, noon.Add(time.Second), writeInterval)).To(BeZero())
	g.Expect(v.pause(set, noon.Add(time.Second), messageInterval)).To(Equal(4 * time.Second))
	v.Set(set)
	v.postpone(set, noon.Add(time.Second))
	_, waited := v.takeReceived(set)
	g.Expect(waited).To(BeFalse(), "the delay is wanted")
	g.Expect(v.pause(set, noon.Add(1500*time.Millisecond), writeInterval)).To(Equal(500*time.Millisecond), "it is not checked all the time")
	g.Expect(v.pause(set, noon.Add(-time.Hour), messageInterval)).To(BeZero(), "the clock was set back")
	v.wrote(set, noon)
	g.Expect(v.pause(set, noon.Add(5*time.Second), messageInterval)).To(BeZero())
	g.Expect(v.sets).To(BeEmpty())
}
