package reflector

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func secretIn(version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s", ResourceVersion: version}}
}

// recorder records the events that it gets, and returns only their versions.
type recorder struct{ events []watch.Event }

func (r *recorder) pass(event watch.Event) watch.Event {
	r.events = append(r.events, event)
	if object, ok := event.Object.(metav1.Object); ok {
		return Bookmark(object)
	}
	return event
}

func TestFilterChangesEventsAboutObjects(t *testing.T) {
	mark := secretIn("9")
	mark.Annotations = map[string]string{"k8s.io/initial-events-end": "true"}
	failure := &metav1.Status{Status: "Failure", Code: 410}
	version := func(v string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: v}}
	}
	for name, tc := range map[string]struct {
		event, want watch.Event
		passed      bool
	}{
		"a created Secret": {
			event: watch.Event{Type: "ADDED", Object: secretIn("5")}, want: watch.Event{Type: "BOOKMARK", Object: version("5")}, passed: true,
		},
		"a changed Secret": {
			event: watch.Event{Type: "MODIFIED", Object: secretIn("6")}, want: watch.Event{Type: "BOOKMARK", Object: version("6")},
			passed: true,
		},
		"a deleted Secret": {
			event: watch.Event{Type: "DELETED", Object: secretIn("7")}, want: watch.Event{Type: "BOOKMARK", Object: version("7")}, passed: true,
		},
		"a Secret that looks like the end of a listing": {
			event: watch.Event{Type: "ADDED", Object: mark}, want: watch.Event{Type: "BOOKMARK", Object: version("9")}, passed: true,
		},
		"the end of a listing": {
			event: watch.Event{Type: "BOOKMARK", Object: mark}, want: watch.Event{Type: "BOOKMARK", Object: mark},
		},
		"an error": {
			event: watch.Event{Type: "ERROR", Object: failure}, want: watch.Event{Type: "ERROR", Object: failure}, passed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			upstream, seen := watch.NewFakeWithChanSize(1, false), &recorder{}
			f := newFilter(upstream, seen.pass)
			upstream.Action(tc.event.Type, tc.event.Object)
			g.Expect(<-f.ResultChan()).To(BeComparableTo(tc.want))
			f.Stop()
			g.Eventually(f.ResultChan()).WithTimeout(30 * time.Second).Should(BeClosed())
			if tc.passed {
				g.Expect(seen.events).To(Equal([]watch.Event{tc.event}))
			} else {
				g.Expect(seen.events).To(BeEmpty())
			}
		})
	}
}

func TestFilterEndsWithItsUpstream(t *testing.T) {
	upstream := watch.NewFake()
	f := newFilter(upstream, (&recorder{}).pass)
	upstream.Stop()
	NewWithT(t).Eventually(f.ResultChan()).WithTimeout(30 * time.Second).Should(BeClosed())
}

// After Stop, pending events must neither block the filter nor be passed to the function.
func TestFilterPassesNothingAfterStop(t *testing.T) {
	g := NewWithT(t)
	upstream, seen := watch.NewFakeWithChanSize(3, false), &recorder{}
	f := newFilter(upstream, seen.pass)
	upstream.Add(secretIn("5"))
	g.Expect(<-f.ResultChan()).NotTo(BeZero())
	f.mu.Lock() // Stop holds this lock
	upstream.Add(secretIn("6"))
	upstream.Add(secretIn("7"))
	f.ended = true
	close(f.stopped)
	f.upstream.Stop()
	f.mu.Unlock()
	g.Eventually(func() int { return len(upstream.ResultChan()) }).WithTimeout(30*time.Second).Should(BeZero(), "without a receiver")
	f.Stop() // a second call is allowed
	g.Eventually(f.ResultChan()).WithTimeout(30 * time.Second).Should(BeClosed())
	g.Expect(seen.events).To(Equal([]watch.Event{{Type: "ADDED", Object: secretIn("5")}}))
}

func TestListsAreReducedOnArrival(t *testing.T) {
	g := NewWithT(t)
	pages := map[string]*metav1.PartialObjectMetadataList{
		"": {
			ListMeta: metav1.ListMeta{ResourceVersion: "9", Continue: "second"},
			Items:    []metav1.PartialObjectMetadata{*secretIn("1"), *secretIn("2")},
		},
		"second": {ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []metav1.PartialObjectMetadata{*secretIn("3")}},
	}
	var requests []metav1.ListOptions
	client := &cache.ListWatch{ListWithContextFunc: func(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
		requests = append(requests, options)
		return pages[options.Continue], nil
	}}
	drop := func(event watch.Event) watch.Event {
		if object, ok := event.Object.(*metav1.PartialObjectMetadata); ok && object.ResourceVersion == "1" {
			return Bookmark(object)
		}
		return event
	}
	list := func(source cache.ListerWatcher) metainternalversion.List {
		found, err := cache.ToListerWatcherWithContext(source).ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
		g.Expect(err).NotTo(HaveOccurred())
		kept, ok := found.(*metainternalversion.List)
		g.Expect(ok).To(BeTrue())
		return *kept
	}
	second, third := &pages[""].Items[1], &pages["second"].Items[0]
	g.Expect(list(PagedSource(client, nil, drop))).To(Equal(metainternalversion.List{
		ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []runtime.Object{second, third},
	}))
	g.Expect(requests).To(Equal([]metav1.ListOptions{{Limit: 500}, {Limit: 500, Continue: "second"}}))
	g.Expect(list(Source(client, nil, drop))).To(Equal(metainternalversion.List{
		ListMeta: metav1.ListMeta{ResourceVersion: "9", Continue: "second"}, Items: []runtime.Object{second},
	}))
	g.Expect(requests[2:]).To(Equal([]metav1.ListOptions{{ResourceVersion: "0"}}))
}

func TestSourceReturnsErrorsUnchanged(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", nil)
	source := cache.ToListerWatcherWithContext(Source(&cache.ListWatch{
		ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, refused },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, refused },
	}, nil, nil))
	_, listErr := source.ListWithContext(t.Context(), metav1.ListOptions{})
	_, watchErr := source.WatchWithContext(t.Context(), metav1.ListOptions{})
	NewWithT(t).Expect([]error{listErr, watchErr}).To(Equal([]error{refused, refused}))
}

// calls is a Receiver that records its calls.
type calls []string

func (c *calls) Set(key types.NamespacedName, value string) {
	*c = append(*c, "set "+key.Name+" "+value)
}

func (c *calls) Delete(key types.NamespacedName, version string) {
	*c = append(*c, "delete "+key.Name+" "+version)
}

func (c *calls) Replace(values map[types.NamespacedName]string, version string) {
	*c = append(*c, fmt.Sprint("replace ", values, version))
}
func (c *calls) Bookmark(version string) { *c = append(*c, "bookmark "+version) }

func TestReceiverGetsWhatIsKept(t *testing.T) {
	g := NewWithT(t)
	var got calls
	keep := func(object client.Object) (string, bool) {
		return object.GetLabels()["keep"], object.GetLabels()["keep"] != ""
	}
	store := NewStore(keep, &got)
	kept := secretIn("5")
	kept.Labels = map[string]string{"keep": "x"}
	arrived := reduce(watch.Event{Type: watch.Added, Object: kept}, keep)
	g.Expect(reduce(watch.Event{Type: watch.Modified, Object: secretIn("6")}, keep).Type).To(Equal(watch.Deleted))
	g.Expect(reduce(watch.Event{Type: watch.Deleted, Object: kept}, keep).Type).To(Equal(watch.Deleted))
	for _, object := range []any{kept, arrived.Object} {
		g.Expect(store.Add(object)).To(Succeed())
		g.Expect(store.Update(object)).To(Succeed())
		g.Expect(store.Replace([]any{object, secretIn("6")}, "7")).To(Succeed())
		g.Expect(store.Delete(object)).To(Succeed())
	}
	g.Expect(store.Add(secretIn("6"))).To(Succeed())
	g.Expect(store.Resync()).To(Succeed())
	g.Expect(store.Add("no object")).NotTo(Succeed())
	g.Expect(store.Replace([]any{"no object"}, "8")).NotTo(Succeed())
	bookmarks, ok := store.(cache.ReflectorBookmarkStore)
	g.Expect(ok).To(BeTrue())
	g.Expect(bookmarks.Bookmark("9")).To(Succeed())
	each := []string{"set s x", "set s x", "replace map[shop/s:x]7", "delete s 5"}
	g.Expect([]string(got)).To(Equal(append(append(each, each...), "delete s 6", "bookmark 9")))
}
