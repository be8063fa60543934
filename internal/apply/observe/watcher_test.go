package observe

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

// When the watch of all namespaces is allowed again, it replaces the watches of single namespaces, which stop like all watches without
// users.
func TestWatchOfAllNamespacesIsRetriedAndReplacesNarrowWatches(t *testing.T) {
	g := NewWithT(t)
	var granted atomic.Bool
	scheme := metadatafake.NewTestScheme()
	g.Expect(metav1.AddMetaToScheme(scheme)).To(Succeed())
	client := metadatafake.NewSimpleMetadataClient(scheme)
	client.PrependReactor("list", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetNamespace() == "" && !granted.Load() {
			return true, nil, forbidden
		}
		return false, nil, nil
	})
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	w := New(t.Context(), Options{
		Client: client, Label: "managed", Value: "us", Clock: clk, Log: logr.Discard(), OnChange: func(schema.GroupKind, string, string) {},
	})
	user, kind := types.NamespacedName{Name: "set"}, schema.GroupKind{Kind: "Secret"}
	w.Use(t.Context(), user, []Need{{
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Kind: kind, Namespaced: true, Namespaces: []string{"a", "b"},
	}})
	knowledge := func(namespace string) Presence {
		_, known := w.Lookup(kind, namespace, "x")
		return known
	}
	g.Expect([]any{w.Watches(), knowledge("a"), knowledge("c")}).To(Equal([]any{2, Absent, Unwatched}))
	granted.Store(true)
	g.Eventually(func() Presence {
		clk.Step(time.Second)
		return knowledge("c")
	}).WithTimeout(30 * time.Second).WithPolling(100 * time.Millisecond).Should(Equal(Absent))
	g.Eventually(func() int {
		clk.Step(time.Minute)
		return w.Watches()
	}).WithTimeout(30 * time.Second).Should(Equal(1))
	g.Expect(knowledge("a")).To(Equal(Absent))
	w.Release(user)
	g.Expect(w.Watches()).To(Equal(1), "a set that takes its place may need it")
	clk.Step(time.Minute)
	g.Eventually(w.Watches).WithTimeout(30 * time.Second).Should(BeZero())
}

// When its context ends, Use returns without the first listings for which it waits.
func TestFirstListingsAreReportedIfTheCallerStopsWaiting(t *testing.T) {
	s := newStoreFixture(t, true)
	w := New(t.Context(), Options{})
	ended, end := context.WithCancel(t.Context())
	end()
	watch := &kindWatch{store: s.store, access: newAccess(clocktesting.NewFakeClock(time.Unix(0, 0)))}
	s.Expect(w.waitForListings(ended, []*kindWatch{watch})).To(BeFalse())
	s.list("10", wholePod("p", "5", "Pending"))
	s.Expect(s.takeReports()).To(Equal([]string{"changed p", "judged p"}))
}
