package served

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/reflector"
)

// newTracker returns a Tracker that knows that all kinds are served, and has not begun to watch.
func newTracker(t *testing.T) *Tracker {
	t.Helper()
	client, err := metadata.NewForConfig(&rest.Config{Host: "localhost"})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return &Tracker{
		clusters: &process.Clusters{Clock: clocktesting.NewFakeClock(time.Unix(0, 0))},
		metadata: client, wake: make(chan struct{}, 1), followed: map[Kind]*watch{}, answer: everything(), asked: time.Unix(0, 0),
	}
}

func everything() answer {
	a := answer{judged: map[Kind]Finding{}, servedBy: map[Kind]types.UID{}}
	for _, kind := range Kinds() {
		a.judged[kind] = Finding{State: "served"}
	}
	return a
}

// full returns a watch that is up to date.
func full(t *testing.T, objects ...any) *watch {
	t.Helper()
	w := newWatch(reader{resource: "plants"}, func() {})
	w.watching = true
	NewWithT(t).Expect(reflector.NewStore(w.read.keep, w).Replace(objects, "1")).To(Succeed())
	return w
}

func TestObjectsComeWithWhatIsKnown(t *testing.T) {
	g := NewWithT(t)
	tracker := newTracker(t)
	look := func(wantObjects int, want Finding) {
		t.Helper()
		found, finding := tracker.Objects(Plant, ByNamespace, "ns")
		g.Expect(found).To(HaveLen(wantObjects))
		g.Expect(finding).To(Equal(want))
		g.Expect(tracker.Finding(Plant)).To(Equal(want))
	}
	look(0, Finding{State: "unknown"})
	w := full(t, plain())
	tracker.followed[Plant] = w
	look(1, Finding{State: "served"})
	w.handleError(t.Context(), errors.New("no"))
	look(0, Finding{"unknown", "cannot follow plants: no"})
	g.Expect(reflector.NewStore(w.read.keep, w).Replace([]any{plain()}, "2")).To(Succeed())
	look(0, Finding{"unknown", "cannot follow plants: no"})
	w.changeState(func() { w.watching = true })
	look(1, Finding{State: "served"})
	tracker.requestDiscovery()
	look(0, Finding{State: "unknown"})
	tracker.considered = tracker.changes
	tracker.answer.judged[Plant] = Finding{State: "absent"}
	look(0, Finding{State: "absent"})
}

// replaced is an index that runs a function during a lookup.
type replaced struct {
	toolscache.ThreadSafeStore
	meanwhile func()
}

func (r replaced) ByIndex(index, key string) ([]any, error) {
	defer r.meanwhile()
	return r.ThreadSafeStore.ByIndex(index, key)
}

func TestWatchThatIsReplacedDuringALookupReturnsNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		happens func(*Tracker, *watch)
		want    Finding
	}{
		"by one that is not full": {func(tracker *Tracker, _ *watch) {
			tracker.followed[Plant] = newWatch(reader{resource: "plants"}, func() {})
		}, Finding{State: "unknown"}},
		"by one that is full": {func(tracker *Tracker, _ *watch) { tracker.followed[Plant] = full(t) }, Finding{State: "unknown"}},
		"or fails": {func(_ *Tracker, w *watch) {
			w.handleError(t.Context(), errors.New("no"))
		}, Finding{"unknown", "cannot follow plants: no"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			tracker, w := newTracker(t), full(t)
			w.objects = replaced{w.objects, func() { tc.happens(tracker, w) }}
			tracker.followed[Plant] = w
			found, finding := tracker.Objects(Plant, ByNamespace, "ns")
			g.Expect(found).To(BeEmpty())
			g.Expect(finding).To(Equal(tc.want))
		})
	}
}

// An aggregated API may begin to serve a kind without any change of a watched object.
func TestAbsenceInAnAggregatedAPIIsCheckedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		by   types.UID
		age  time.Duration
		want Finding
	}{
		"just asked":               {"remote", 5*time.Minute - 1, Finding{State: "absent"}},
		"asked long ago":           {"remote", 5 * time.Minute, Finding{State: "unknown"}},
		"the clock went back":      {"remote", -time.Hour, Finding{State: "unknown"}},
		"by the API server's word": {"", 1000 * time.Hour, Finding{State: "absent"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			tracker := newTracker(t)
			tracker.answer.judged[Plant], tracker.answer.servedBy[Plant] = Finding{State: "absent"}, tc.by
			tracker.asked = time.Unix(0, 0).Add(-tc.age)
			g.Expect(tracker.Finding(Plant)).To(Equal(Finding{State: "absent"}))
			_, finding := tracker.Objects(Plant, ByNamespace, "ns")
			g.Expect(finding).To(Equal(tc.want))
			if tc.want.State == "unknown" {
				g.Expect(tracker.wake).To(Receive())
			}
			g.Expect(tracker.wake).NotTo(Receive())
		})
	}
}

func TestMetricsSayWhatIsFoundNow(t *testing.T) {
	g := NewWithT(t)
	now := Finding{State: "unknown"}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(newMetrics(func(Kind) Finding { return now }))
	for _, state := range []State{"unknown", "served", "absent"} {
		now.State = state
		families, err := registry.Gather()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(families).To(HaveLen(1))
		g.Expect(families[0].GetName()).To(Equal("espalier_project_kind_served"))
		got, want := map[string]float64{}, map[string]float64{}
		for _, each := range families[0].GetMetric() {
			got[each.GetLabel()[0].GetValue()+" "+each.GetLabel()[1].GetValue()] = each.GetGauge().GetValue()
		}
		for _, kind := range []string{"Shoot", "Plant", "BackupEntry", "SecretBinding", "CredentialsBinding", "Quota", "Secret"} {
			want[kind+" absent"], want[kind+" served"], want[kind+" unknown"] = 0, 0, 0
			want[kind+" "+string(state)] = 1
		}
		g.Expect(got).To(Equal(want))
	}
}

func TestAListingIsSharedForSomeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		listings, fail := 0, errors.New("no")
		s := &shared{list: func(context.Context) ([]*Object, error) {
			listings++
			return nil, fail
		}}
		get := func(want int) {
			t.Helper()
			_, err := s.get(t.Context())
			g.Expect(listings).To(Equal(want))
			if fail == nil {
				g.Expect(err).NotTo(HaveOccurred())
			}
		}
		get(1)
		get(2) // failures are not shared
		fail = nil
		get(3)
		time.Sleep(4 * time.Second)
		get(3)
		time.Sleep(2 * time.Second)
		get(4)
		time.Sleep(6 * time.Second)
	})
}
