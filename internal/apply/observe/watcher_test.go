package observe

import (
	"context"
	"fmt"
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
	w.As("").Use(t.Context(), user, []Need{{
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Kind: kind, Namespaced: true, Namespaces: []string{"a", "b"},
	}})
	knowledge := func(namespace string) Presence {
		_, known := w.As("").Lookup(kind, namespace, "x")
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

// kitchen has a Watcher for an API server that allows guests nothing, cooks namespace a, and the chef everything.
type kitchen struct {
	*WithT
	*Watcher
	clock *clocktesting.FakeClock
	kind  schema.GroupKind
}

func newKitchen(t *testing.T) *kitchen {
	t.Helper()
	k := &kitchen{WithT: NewWithT(t), clock: clocktesting.NewFakeClock(time.Unix(0, 0)), kind: schema.GroupKind{Kind: "Secret"}}
	scheme := metadatafake.NewTestScheme()
	k.Expect(metav1.AddMetaToScheme(scheme)).To(Succeed())
	clients := 0
	k.Watcher = New(t.Context(), Options{
		Label: "managed", Value: "us", Clock: k.clock, Log: logr.Discard(), OnChange: func(schema.GroupKind, string, string) {},
		As: func(user string) (*Clients, error) {
			clients++
			k.Expect(clients).To(BeNumerically("<=", 3), "one for each user")
			client := metadatafake.NewSimpleMetadataClient(scheme)
			client.PrependReactor("list", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if user == "guest" || user == "cook" && action.GetNamespace() != "a" {
					return true, nil, forbidden
				}
				return false, nil, nil
			})
			return &Clients{Metadata: client}, nil
		},
	})
	return k
}

func (k *kitchen) use(ctx context.Context, set, user string, namespaces ...string) {
	k.As(user).Use(ctx, types.NamespacedName{Name: set}, []Need{{
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Kind: k.kind, Namespaced: true, Namespaces: namespaces,
	}})
}

func (k *kitchen) knowledge(user, namespace string) Presence {
	_, presence := k.As(user).Lookup(k.kind, namespace, "x")
	return presence
}

func (k *kitchen) watched() (count int) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, byUser := range k.watches {
		count += len(byUser)
	}
	return count
}

// A watch with the rights of a user serves one namespace, and shows its objects to the sets of this user only.
func TestWatchesHaveTheRightsOfUsers(t *testing.T) {
	k := newKitchen(t)
	k.use(t.Context(), "one", "guest", "a", "b")
	k.use(t.Context(), "two", "cook", "a", "b")
	k.use(t.Context(), "three", "cook", "a")
	k.use(t.Context(), "four", "chef", "b")
	knowledge := func() []Presence {
		var all []Presence
		for _, user := range []string{"guest", "cook", "chef", ""} {
			all = append(all, k.knowledge(user, "a"), k.knowledge(user, "b"))
		}
		return all
	}
	k.Expect(knowledge()).To(Equal([]Presence{Unwatched, Unwatched, Absent, Unwatched, Unwatched, Absent, Unwatched, Unwatched}))

	written := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "x", Labels: map[string]string{"managed": "us"}, ResourceVersion: "5",
	}}
	k.As("chef").Record(k.kind, written)
	k.Expect(k.knowledge("cook", "a")).To(Equal(Present), "so that the event of the write is not reported as a change")

	k.use(t.Context(), "two", "chef", "a")
	k.Release(types.NamespacedName{Name: "four"})
	k.Expect(knowledge()).To(Equal([]Presence{Unwatched, Unwatched, Present, Unwatched, Absent, Unwatched, Unwatched, Unwatched}))
	for _, set := range []string{"one", "two", "three"} {
		k.Release(types.NamespacedName{Name: set})
	}
	k.Expect(k.watched()).To(BeZero())
	k.Expect(k.others).To(BeEmpty())
	k.Expect(k.sets).To(BeEmpty())
}

// A watch of all namespaces replaces many watches of one.
func TestASetCannotStartThousandsOfWatches(t *testing.T) {
	k := newKitchen(t)
	namespaces := []string{"a"}
	for i := range 1000 {
		namespaces = append(namespaces, fmt.Sprintf("n%d", i))
	}
	k.use(t.Context(), "one", "guest", namespaces...)
	k.Expect(k.watched()).To(Equal(maxWatches))
	k.use(t.Context(), "two", "cook", namespaces...)
	k.Expect(k.watched()).To(Equal(2 * maxWatches))
	k.Expect(k.knowledge("cook", "a")).To(Equal(Absent))
	k.use(t.Context(), "three", "chef", namespaces...)
	k.Expect(k.watched()).To(Equal(2*maxWatches+1), "one watch of all namespaces")
	k.Expect(k.knowledge("chef", "n999")).To(Equal(Absent))
}

func TestManySetsCannotStartThousandsOfWatches(t *testing.T) {
	k := newKitchen(t)
	for i := range 2 * maxWatches {
		for _, user := range []string{"guest", "chef"} {
			k.use(t.Context(), fmt.Sprintf("%s-%d", user, i), user, fmt.Sprintf("n%d", i))
		}
	}
	k.Expect(k.watched()).To(Equal(maxWatches+maxNamespaces+1), "for the chef, one watch of all namespaces after the first ones")
	for _, namespace := range []string{"n0", "n399"} {
		k.Expect(k.knowledge("chef", namespace)).To(Equal(Absent))
		k.Expect(k.knowledge("guest", namespace)).To(Equal(Unwatched))
	}
}

// A watch that lags behind another one does not make a finished Job count as unfinished, or it would run again when it is gone.
func TestALaterStateOfAJobCounts(t *testing.T) {
	w, key := New(t.Context(), Options{}), types.NamespacedName{Namespace: "a", Name: "job"}
	finished := func() bool { return w.HasFinished(jobKind, key.Namespace, key.Name) }
	g := NewWithT(t)
	w.noteJob(key, "7", true)
	w.noteJob(key, "5", false)
	g.Expect(finished()).To(BeTrue())
	w.noteJob(key, "9", false)
	g.Expect(finished()).To(BeFalse(), "another Job with this name")
	w.SetFinished(jobKind, key.Namespace, key.Name, true)
	w.noteJob(key, "12", false)
	g.Expect(finished()).To(BeFalse())
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
