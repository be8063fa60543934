package secretversions

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func secretIn(version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s", ResourceVersion: version}}
}

// digests records its events.
type digests struct{ events []watch.Event }

func (d *digests) digest(kind watch.EventType, object *metav1.PartialObjectMetadata) {
	d.events = append(d.events, watch.Event{Type: kind, Object: object})
}

func TestFilterPassesVersionsOnly(t *testing.T) {
	mark := secretIn("9")
	mark.Annotations = map[string]string{"k8s.io/initial-events-end": "true"}
	failure := &metav1.Status{Status: "Failure", Code: 410}
	version := func(v string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: v}}
	}
	for name, tc := range map[string]struct {
		event, want watch.Event
		digested    bool
	}{
		"a created Secret": {event: watch.Event{Type: "ADDED", Object: secretIn("5")}, want: watch.Event{Type: "BOOKMARK", Object: version("5")}, digested: true},
		"a changed Secret": {event: watch.Event{Type: "MODIFIED", Object: secretIn("6")}, want: watch.Event{Type: "BOOKMARK", Object: version("6")}, digested: true},
		"a deleted Secret": {event: watch.Event{Type: "DELETED", Object: secretIn("7")}, want: watch.Event{Type: "BOOKMARK", Object: version("7")}, digested: true},
		"a Secret that looks like the end of a listing": {event: watch.Event{Type: "ADDED", Object: mark}, want: watch.Event{Type: "BOOKMARK", Object: version("9")}, digested: true},
		"the end of a listing":                          {event: watch.Event{Type: "BOOKMARK", Object: mark}, want: watch.Event{Type: "BOOKMARK", Object: mark}},
		"an error":                                      {event: watch.Event{Type: "ERROR", Object: failure}, want: watch.Event{Type: "ERROR", Object: failure}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			upstream, seen := watch.NewFakeWithChanSize(1, false), &digests{}
			f := newFilter(upstream, seen.digest)
			upstream.Action(tc.event.Type, tc.event.Object)
			g.Expect(<-f.ResultChan()).To(BeComparableTo(tc.want))
			f.Stop()
			g.Eventually(f.ResultChan()).WithTimeout(30 * time.Second).Should(BeClosed())
			if tc.digested {
				g.Expect(seen.events).To(Equal([]watch.Event{tc.event}))
			} else {
				g.Expect(seen.events).To(BeEmpty())
			}
		})
	}
}

func TestFilterEndsWithItsUpstream(t *testing.T) {
	upstream := watch.NewFake()
	f := newFilter(upstream, (&digests{}).digest)
	upstream.Stop()
	NewWithT(t).Eventually(f.ResultChan()).WithTimeout(30 * time.Second).Should(BeClosed())
}

// After Stop, pending events must neither block the filter nor be processed as changes.
func TestFilterDigestsNothingAfterStop(t *testing.T) {
	g := NewWithT(t)
	upstream, seen := watch.NewFakeWithChanSize(3, false), &digests{}
	f := newFilter(upstream, seen.digest)
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
