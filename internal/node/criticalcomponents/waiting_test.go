package criticalcomponents

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
)

// created is the creation time of the Nodes in these tests.
func created() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }

func newMemory() (*waiting, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	return newWaiting(NewMetrics(registry), 10*time.Second), registry
}

// figures returns the values of all counters and gauges, and the sums of all histograms, that are not 0. The key is the value of the
// label; for a metric without labels, the key is the name of the metric.
func figures(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name = label.GetValue()
			}
			if value := metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + metric.GetHistogram().GetSampleSum(); value != 0 {
				found[name] = value
			}
		}
	}
	return found
}

func born(at time.Time) func(*corev1.Node) {
	return func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(at) }
}

func TestTheTimeANodeHadItsTaint(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(w *waiting, node *corev1.Node)
		want   float64
	}{
		"since its creation":     {before: func(*waiting, *corev1.Node) {}, want: 60},
		"since it got it again":  {before: func(w *waiting, n *corev1.Node) { w.taintedAgain(n, created().Add(50*time.Second)) }, want: 10},
		"by a clock that is off": {before: func(w *waiting, n *corev1.Node) { w.taintedAgain(n, created().Add(time.Hour)) }},
	} {
		t.Run(name, func(t *testing.T) {
			w, registry := newMemory()
			node := nodeWith(born(created()))
			tc.before(w, node)
			w.removed(node, "2", created().Add(time.Minute))
			NewWithT(t).Expect(figures(t, registry)["espalier_node_taint_seconds"]).To(Equal(tc.want))
		})
	}
}

func TestNodesAreCountedByWhatTheyWaitFor(t *testing.T) {
	g := NewWithT(t)
	w, registry := newMemory()
	one, two := nodeWith(), nodeWith(func(n *corev1.Node) { n.Name, n.UID = "n2", "u2" })
	w.held(one, unscheduled, created())
	w.held(two, unscheduled, created())
	g.Expect(figures(t, registry)).To(Equal(map[string]float64{"daemonsets_unscheduled": 2}))
	w.held(one, unready, created())
	g.Expect(figures(t, registry)).To(Equal(map[string]float64{"daemonsets_unscheduled": 1, "pods_unready": 1}))
	replaced := nodeWith(func(n *corev1.Node) { n.UID = "other" })
	w.held(replaced, unready, created())
	g.Expect(figures(t, registry)).
		To(Equal(map[string]float64{"daemonsets_unscheduled": 1, "pods_unready": 1}), "another Node of the same name")
	w.forget("n1")
	w.forget("n1")
	w.removed(two, "2", created())
	g.Expect(figures(t, registry)).To(HaveKeyWithValue("espalier_node_taints_removed_total", 1.0))
	g.Expect(figures(t, registry)).NotTo(Or(HaveKey("pods_unready"), HaveKey("daemonsets_unscheduled")))
}

func TestOneFailureIsNoNews(t *testing.T) {
	g := NewWithT(t)
	w, _ := newMemory()
	tell := func(why cause, after time.Duration) bool {
		_, tell := w.held(nodeWith(), why, created().Add(after))
		return tell
	}
	g.Expect(tell(failed, 0)).To(BeFalse())
	g.Expect(tell(failed, time.Second)).To(BeTrue(), "the second in a row")
	g.Expect(tell(failed, 2*time.Second)).To(BeFalse(), "the pause is not over")
	g.Expect(tell(unready, 3*time.Second)).To(BeFalse())
	g.Expect(tell(unready, 11*time.Second)).To(BeTrue())
	g.Expect(tell(unready, 20*time.Second)).To(BeFalse())
	g.Expect(tell(unready, 21*time.Second)).To(BeTrue(), "the same again keeps the Event alive")
}

// A request that is interrupted because the process stops is not a failure.
func TestTheEndOfTheProcessIsNoNews(t *testing.T) {
	g, recorder := NewWithT(t), events.NewFakeRecorder(10)
	w, registry := newMemory()
	r := &Reconciler{Clock: clocktesting.NewFakePassiveClock(created()), Events: &Events{Recorder: recorder}, waiting: w}
	ended, end := context.WithCancel(t.Context())
	end()
	for range 2 { // the second failure in a row is reported
		r.reportFailure(ended, nodeWith(), ended.Err())
	}
	g.Expect(recorder.Events).NotTo(Receive())
	g.Expect(figures(t, registry)).To(BeEmpty())
	for range 2 {
		r.reportFailure(t.Context(), nodeWith(), errors.New("refused"))
	}
	g.Expect(recorder.Events).To(Receive(ContainSubstring("refused")))
}

func TestARemovedTaintIsNotRemovedAgain(t *testing.T) {
	g := NewWithT(t)
	w, _ := newMemory()
	at := func(version string) *corev1.Node {
		return nodeWith(func(n *corev1.Node) { n.ResourceVersion = version })
	}
	g.Expect(w.isRemoved(at("7"))).To(BeFalse())
	w.removed(at("7"), "10", created())
	g.Expect(w.isRemoved(at("7"))).To(BeTrue())
	g.Expect(w.isRemoved(at("9"))).To(BeTrue(), "a version between judgement and removal")
	g.Expect(w.isRemoved(at("11"))).To(BeFalse(), "it has changed since")
	g.Expect(w.isRemoved(at("?"))).To(BeFalse(), "what cannot be compared")
	g.Expect(w.isRemoved(nodeWith(func(n *corev1.Node) { n.ResourceVersion, n.UID = "7", "other" }))).To(BeFalse())
}

func TestWhatIsRememberedOfMistakesIsBounded(t *testing.T) {
	g := NewWithT(t)
	w, _ := newMemory()
	first := errors.New("broken").Error()
	g.Expect(w.toldBefore("u", first)).To(BeFalse())
	g.Expect(w.toldBefore("u", first)).To(BeTrue())
	g.Expect(w.toldBefore("v", first)).To(BeFalse(), "another object")
	for i := range 2 * maxMistakes {
		w.toldBefore(types.UID(fmt.Sprintf("u%d", i)), first)
	}
	g.Expect(w.mistakes.Len()).To(BeNumerically("<=", maxMistakes))
}
