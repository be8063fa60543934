package observe

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
)

// answer is an answer of the API server to a request of one watch, at a time after the start.
type answer struct {
	after     time.Duration
	streaming bool
	err       error
	listing   bool
}

func TestWatchIsDeniedAfterPersistentRefusalsAndGrantedWhenItRunsAgain(t *testing.T) {
	listed, streams := answer{listing: true}, answer{streaming: true}
	refusedAfter := func(after time.Duration) answer { return answer{after: after, streaming: true, err: forbidden} }
	absent := apierrors.NewNotFound(schema.GroupResource{}, "")
	for name, tc := range map[string]struct {
		answers []answer
		want    []accessChange
	}{
		"one that never ran is denied at once": {[]answer{refusedAfter(0)}, []accessChange{accessDenied}},
		"one that never ran and is not served is denied at once": {
			[]answer{{streaming: true, err: absent}}, []accessChange{accessDenied},
		},
		"another error does not deny it": {
			[]answer{{streaming: true, err: errors.New("broken")}}, []accessChange{accessUnchanged},
		},
		"one that may be listed only never ran": {
			[]answer{listed, refusedAfter(0)}, []accessChange{accessUnchanged, accessDenied},
		},
		"one that ran is not denied by a refusal": {
			[]answer{listed, streams, refusedAfter(0)}, []accessChange{accessUnchanged, accessUnchanged, accessUnchanged},
		},
		"one that ran is not denied by several refusals in a short time": {
			[]answer{streams, refusedAfter(0), refusedAfter(9 * time.Second)},
			[]accessChange{accessUnchanged, accessUnchanged, accessUnchanged},
		},
		"one that ran is denied by persistent refusals": {
			[]answer{streams, refusedAfter(0), refusedAfter(10 * time.Second)}, []accessChange{accessUnchanged, accessUnchanged, accessDenied},
		},
		"an answer between refusals resets the time of refusals": {
			[]answer{streams, refusedAfter(0), streams, refusedAfter(10 * time.Second)},
			[]accessChange{accessUnchanged, accessUnchanged, accessUnchanged, accessUnchanged},
		},
		"another error between refusals resets the time of refusals": {
			[]answer{streams, refusedAfter(0), {err: errors.New("broken")}, refusedAfter(10 * time.Second)},
			[]accessChange{accessUnchanged, accessUnchanged, accessUnchanged, accessUnchanged},
		},
		"a listing alone restores nothing": {
			[]answer{refusedAfter(0), listed}, []accessChange{accessDenied, accessUnchanged},
		},
		"a stream alone restores nothing": {
			[]answer{refusedAfter(0), streams}, []accessChange{accessDenied, accessUnchanged},
		},
		"a listing and a stream restore access": {
			[]answer{refusedAfter(0), listed, streams}, []accessChange{accessDenied, accessUnchanged, accessRestored},
		},
		"a stream and a listing restore access": {
			[]answer{refusedAfter(0), streams, listed}, []accessChange{accessDenied, accessUnchanged, accessRestored},
		},
		"a refusal between listing and stream prevents the restore": {
			[]answer{refusedAfter(0), listed, refusedAfter(0), streams},
			[]accessChange{accessDenied, accessUnchanged, accessUnchanged, accessUnchanged},
		},
		"a restored watch is denied again by persistent refusals": {
			[]answer{refusedAfter(0), listed, streams, refusedAfter(0), refusedAfter(time.Minute)},
			[]accessChange{accessDenied, accessUnchanged, accessRestored, accessUnchanged, accessDenied},
		},
	} {
		t.Run(name, func(t *testing.T) {
			clk := clocktesting.NewFakeClock(time.Unix(0, 0))
			a := newAccess(clk)
			var got []accessChange
			for _, each := range tc.answers {
				clk.Step(each.after)
				if each.listing {
					got = append(got, a.recordListing())
				} else {
					got = append(got, a.recordAnswer(each.streaming, each.err))
				}
			}
			NewWithT(t).Expect(got).To(Equal(tc.want))
		})
	}
}

func TestPausesAfterRefusalsGrowUpToFiveMinutes(t *testing.T) {
	g := NewWithT(t)
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	a := newAccess(clk)
	pass := func() chan error {
		waited := make(chan error, 1)
		go func() { waited <- a.waitForRetry(t.Context()) }()
		return waited
	}
	g.Eventually(pass()).WithTimeout(30 * time.Second).Should(Receive(BeNil()))
	for _, seconds := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		a.recordAnswer(true, forbidden)
		waiting := pass()
		g.Eventually(clk.HasWaiters).WithTimeout(30 * time.Second).Should(BeTrue())
		clk.Step(time.Duration(seconds)*time.Second - time.Nanosecond)
		g.Consistently(waiting).WithTimeout(2*time.Millisecond).ShouldNot(Receive(), "%d s", seconds)
		clk.Step(time.Nanosecond)
		g.Eventually(waiting).WithTimeout(30 * time.Second).Should(Receive(BeNil()))
	}
	a.recordAnswer(true, nil)
	g.Eventually(pass()).WithTimeout(30 * time.Second).Should(Receive(BeNil()))
}
