package served

import (
	"context"
	"errors"
	"fmt"
	stdruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/espalier-dev/espalier/test/binary"
)

// remoteServer is a fake API server that serves one resource as the test says.
type remoteServer struct {
	*WithT

	mu       sync.Mutex // guards the fields below
	refuse   error
	strange  bool // does not stream lists
	listed   []metav1.PartialObjectMetadata
	stream   *apiwatch.RaceFreeFakeWatcher
	asked    []string
	findings []Finding // the findings, each time that they changed
	events   []string
	watch    *watch
}

func newMetadata(name string, version int) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u", ResourceVersion: strconv.Itoa(version)},
	}
}

func newRemoteServer(t *testing.T, change func(*remoteServer)) *remoteServer {
	t.Helper()
	f := &remoteServer{WithT: NewWithT(t)}
	f.SetDefaultEventuallyTimeout(binary.Patience)
	if change != nil {
		change(f)
	}
	f.watch = newWatch(reader{resource: "things", Client: &cache.ListWatch{ListWithContextFunc: f.list, WatchFuncWithContext: f.begin}},
		f.changed, func(before, after *Object) {
			switch {
			case before == nil:
				f.expectEvent("added", after)
			case after == nil:
				f.expectEvent("deleted", before)
			default:
				f.expectEvent("updated", after)
			}
		})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.watch.run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return f
}

func (f *remoteServer) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *remoteServer) list(context.Context, metav1.ListOptions) (runtime.Object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, "list")
	return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "10"}, Items: f.listed}, f.refuse
}

func (f *remoteServer) begin(_ context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	streams := o.SendInitialEvents != nil && *o.SendInitialEvents
	f.asked = append(f.asked, fmt.Sprintf("watch %q %t", o.ResourceVersion, streams))
	if f.refuse != nil {
		return nil, f.refuse
	}
	if f.strange && streams {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
	}
	f.stream = apiwatch.NewRaceFreeFake()
	return f.stream, nil
}

func (f *remoteServer) changed() {
	finding := f.watch.finding()
	f.set(func() { f.findings = append(f.findings, finding) })
}

func (f *remoteServer) expectEvent(what string, object *Object) {
	f.set(func() { f.events = append(f.events, what+" "+object.Name) })
}

// sends waits for a stream, and sends the objects and the bookmark that ends the initial list.
func (f *remoteServer) sends(objects ...*metav1.PartialObjectMetadata) {
	for _, each := range objects {
		f.stream.Add(each)
	}
	end := &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: "10", Annotations: map[string]string{"k8s.io/initial-events-end": "true"}},
	}
	f.stream.Action(apiwatch.Bookmark, end)
}

// awaits waits until these requests have been made.
func (f *remoteServer) awaits(want ...string) {
	f.Eventually(func() []string {
		f.mu.Lock()
		defer f.mu.Unlock()
		return append([]string(nil), f.asked...)
	}).Should(Equal(want))
}

func (f *remoteServer) finds(want Finding) { f.Eventually(f.watch.finding).Should(Equal(want)) }

func (f *remoteServer) storedKeys() []string { return f.watch.objects.ListKeys() }

// After an outage, the finding must not be Served before all missed events have arrived.
func TestAWatchThatIsBackMustCatchUp(t *testing.T) {
	f := newRemoteServer(t, nil)
	f.awaits(`watch "" true`)
	f.Expect(f.watch.finding()).To(Equal(Finding{State: "unknown"}))
	f.sends(newMetadata("a", 1), newMetadata("b", 2), newMetadata("c", 3))
	f.finds(Finding{State: "served"})

	f.set(func() {
		f.refuse = errors.New("refused")
		f.asked = nil
		f.stream.Modify(newMetadata("b", 11))
		f.stream.Stop()
	})
	f.finds(Finding{"unknown", "cannot follow things: refused"})
	f.Expect(f.storedKeys()).To(ConsistOf("ns/a", "ns/b", "ns/c"))

	f.set(func() { f.refuse = nil; f.asked = nil })
	f.awaits(`watch "" true`)
	f.Expect(f.watch.finding()).To(Equal(Finding{"unknown", "cannot follow things: refused"}))
	other := newMetadata("c", 13)
	other.UID = "another"
	f.sends(newMetadata("b", 12), other, newMetadata("d", 14))
	f.finds(Finding{State: "served"})
	f.Expect(f.storedKeys()).To(ConsistOf("ns/b", "ns/c", "ns/d"))
	f.set(func() {
		f.Expect(f.findings).To(Equal([]Finding{{State: "served"}, {"unknown", "cannot follow things: refused"}, {State: "served"}}))
		// lists have no order
		f.Expect(f.events).To(ConsistOf("added a", "added b", "added c", "updated b", "updated b",
			"deleted c", "added c", "added d", "deleted a"))
	})
}

// When the stream of a watch ends without an error, the next watch continues at the last resource version.
func TestAStreamThatEndsGoesOn(t *testing.T) {
	f := newRemoteServer(t, nil)
	f.awaits(`watch "" true`)
	f.sends(newMetadata("a", 1))
	f.finds(Finding{State: "served"})
	f.set(func() { f.stream.Modify(newMetadata("a", 11)); f.stream.Delete(newMetadata("a", 12)); f.stream.Stop() })
	f.awaits(`watch "" true`, `watch "12" false`)
	f.Expect(f.storedKeys()).To(BeEmpty())
	f.set(func() { f.Expect(f.findings).To(Equal([]Finding{{State: "served"}})) })
}

// Errors may also arrive within a stream. An expired version is not reported as an error.
func TestAnErrorInAStreamLosesIt(t *testing.T) {
	for name, tc := range map[string]struct {
		status metav1.Status
		want   Finding
	}{
		"too old": {apierrors.NewResourceExpired("too old").Status(), Finding{State: "unknown"}},
		"an internal error": {
			apierrors.NewInternalError(errors.New("no")).Status(), Finding{"unknown", "cannot follow things: Internal error occurred: no"},
		},
		"too many requests":  {apierrors.NewTooManyRequests("slowly", 0).Status(), Finding{"unknown", "cannot follow things: slowly"}},
		"whatever it may be": {metav1.Status{Message: "m"}, Finding{"unknown", "cannot follow things: m"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newRemoteServer(t, nil)
			f.awaits(`watch "" true`)
			f.sends(newMetadata("a", 1))
			f.finds(Finding{State: "served"})
			f.set(func() { f.asked = nil; f.stream.Error(&tc.status) })
			f.awaits(`watch "" true`)
			f.Expect(f.watch.finding()).To(Equal(tc.want))
			f.sends()
			f.finds(Finding{State: "served"})
			f.Expect(f.storedKeys()).To(BeEmpty())
		})
	}
}

// An API server that does not stream lists is listed instead, which is no error.
func TestAnAPIServerWithoutStreamsIsListed(t *testing.T) {
	f := newRemoteServer(t, func(f *remoteServer) {
		f.strange = true
		f.listed = []metav1.PartialObjectMetadata{*newMetadata("a", 1)}
	})
	f.awaits(`watch "" true`, "list", `watch "10" false`)
	f.finds(Finding{State: "served"})
	f.Expect(f.storedKeys()).To(ConsistOf("ns/a"))
	f.set(func() { f.Expect(f.findings).To(Equal([]Finding{{State: "served"}})) })
}

// A watch whose user may list but not watch is never up to date.
func TestAListingAloneIsNotEnough(t *testing.T) {
	g := NewWithT(t)
	w := newWatch(reader{
		resource: "things",
		Client: &cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return &metav1.PartialObjectMetadataList{}, nil
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (apiwatch.Interface, error) {
				return nil, errors.New("no right")
			},
		},
	}, func() {})
	for range 2 {
		_, err := w.list(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		w.Replace(nil, "10")
		g.Expect(w.finding().State).To(BeEquivalentTo("unknown"))
		_, err = w.begin(t.Context(), metav1.ListOptions{ResourceVersion: "10"})
		g.Expect(err).To(MatchError("no right"))
		g.Expect(w.finding()).To(Equal(Finding{"unknown", "cannot follow things: no right"}))
		_, err = w.begin(t.Context(), metav1.ListOptions{ResourceVersion: "10"})
		g.Expect(apierrors.IsResourceExpired(err)).To(BeTrue())
	}
}

func TestStoppedWatchLeavesNoGoroutines(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(binary.Patience)
	stream, begun := apiwatch.NewRaceFreeFake(), make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	w := newWatch(reader{resource: "things", Client: &cache.ListWatch{
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (apiwatch.Interface, error) {
			begin()
			return stream, nil
		},
	}}, func() {})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.run(ctx)
	}()
	<-begun
	cancel()
	for range 10 {
		stream.Add(newMetadata("a", 1))
	}
	<-done
	g.Eventually(filters).Should(BeZero(), "nothing waits for the event to be received")
}

// filters counts the goroutines that filter watch events.
func filters() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:stdruntime.Stack(stacks, true)]), "(*filter).run(")
}
