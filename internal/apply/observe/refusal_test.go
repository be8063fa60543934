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

// answer plays what an API server says to one watch, at times after the start.
type answer struct {
	after     time.Duration
	streaming bool
	err       error
	listing   bool
}

func TestAWatchIsDeniedOnceRefusalsPersistAndGrantedWhenItRunsAgain(t *testing.T) {
	listed, streams := answer{listing: true}, answer{streaming: true}
	refusedAfter := func(after time.Duration) answer { return answer{after: after, streaming: true, err: forbidden} }
	absent := apierrors.NewNotFound(schema.GroupResource{}, "")
	for name, tc := range map[string]struct {
		answers []answer
		want    []turn
	}{
		"one that never ran is denied at once":          {[]answer{refusedAfter(0)}, []turn{turnedDown}},
		"one that is not served too":                    {[]answer{{streaming: true, err: absent}}, []turn{turnedDown}},
		"another fault denies nothing":                  {[]answer{{streaming: true, err: errors.New("broken")}}, []turn{unchanged}},
		"one that may be listed only never ran":         {[]answer{listed, refusedAfter(0)}, []turn{unchanged, turnedDown}},
		"one that ran is not denied by a refusal":       {[]answer{listed, streams, refusedAfter(0)}, []turn{unchanged, unchanged, unchanged}},
		"nor by several in a short time":                {[]answer{streams, refusedAfter(0), refusedAfter(9 * time.Second)}, []turn{unchanged, unchanged, unchanged}},
		"but by those that persist":                     {[]answer{streams, refusedAfter(0), refusedAfter(10 * time.Second)}, []turn{unchanged, unchanged, turnedDown}},
		"an answer in between begins anew":              {[]answer{streams, refusedAfter(0), streams, refusedAfter(10 * time.Second)}, []turn{unchanged, unchanged, unchanged, unchanged}},
		"another fault in between too":                  {[]answer{streams, refusedAfter(0), {err: errors.New("broken")}, refusedAfter(10 * time.Second)}, []turn{unchanged, unchanged, unchanged, unchanged}},
		"a listing alone restores nothing":              {[]answer{refusedAfter(0), listed}, []turn{turnedDown, unchanged}},
		"a stream alone does not either":                {[]answer{refusedAfter(0), streams}, []turn{turnedDown, unchanged}},
		"both restore it":                               {[]answer{refusedAfter(0), listed, streams}, []turn{turnedDown, unchanged, restored}},
		"in any order":                                  {[]answer{refusedAfter(0), streams, listed}, []turn{turnedDown, unchanged, restored}},
		"unless it was refused in between":              {[]answer{refusedAfter(0), listed, refusedAfter(0), streams}, []turn{turnedDown, unchanged, unchanged, unchanged}},
		"what was restored is denied again as the rest": {[]answer{refusedAfter(0), listed, streams, refusedAfter(0), refusedAfter(time.Minute)}, []turn{turnedDown, unchanged, restored, unchanged, turnedDown}},
	} {
		t.Run(name, func(t *testing.T) {
			clk := clocktesting.NewFakeClock(time.Unix(0, 0))
			a := newAdmission(clk)
			var got []turn
			for _, each := range tc.answers {
				clk.Step(each.after)
				if each.listing {
					got = append(got, a.sawListing())
				} else {
					got = append(got, a.answered(each.streaming, each.err))
				}
			}
			NewWithT(t).Expect(got).To(Equal(tc.want))
		})
	}
}

func TestPausesAfterRefusalsGrowUpToFiveMinutes(t *testing.T) {
	g := NewWithT(t)
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	a := newAdmission(clk)
	pass := func() chan error {
		passed := make(chan error, 1)
		go func() { passed <- a.pass(t.Context()) }()
		return passed
	}
	g.Eventually(pass()).WithTimeout(30 * time.Second).Should(Receive(BeNil()))
	for _, seconds := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		a.answered(true, forbidden)
		waiting := pass()
		g.Eventually(clk.HasWaiters).WithTimeout(30 * time.Second).Should(BeTrue())
		clk.Step(time.Duration(seconds)*time.Second - time.Nanosecond)
		g.Consistently(waiting).WithTimeout(2*time.Millisecond).ShouldNot(Receive(), "%d s", seconds)
		clk.Step(time.Nanosecond)
		g.Eventually(waiting).WithTimeout(30 * time.Second).Should(Receive(BeNil()))
	}
	a.answered(true, nil)
	g.Eventually(pass()).WithTimeout(30 * time.Second).Should(Receive(BeNil()))
}
