package stale

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/espalier-dev/espalier/internal/project/usage"
)

// An API that fails repeatedly is reported only once in a while. The last report is true, and a failed report is repeated.
func TestSuspensionsAreNotReportedMoreOftenThanEveryTenMinutes(t *testing.T) {
	g := NewWithT(t)
	h := &judgedProjects{}
	suspend := func(age time.Duration, wantTell bool, wantAgain time.Duration) {
		t.Helper()
		tell, again := h.suspend(at(age))
		g.Expect([]any{tell, again}).To(Equal([]any{wantTell, wantAgain}))
	}
	g.Expect(h.resume()).To(BeFalse(), "nothing was suspended")
	suspend(0, true, 0)
	suspend(time.Second, false, 0)
	g.Expect(h.resume()).To(BeTrue())
	g.Expect(h.resume()).To(BeFalse())
	suspend(time.Minute, false, 9*time.Minute)
	g.Expect(h.resume()).To(BeFalse(), "the suspension was not reported")
	suspend(10*time.Minute, true, 0)
	h.retractSuspension()
	suspend(10*time.Minute, true, 0)
	g.Expect(h.resume()).To(BeTrue())
	h.retractResumption()
	g.Expect(h.resume()).To(BeTrue())
}

func TestLiveUsesCountUntilTheCachesHaveThem(t *testing.T) {
	unused, used := usage.Verdict{}, usage.Verdict{By: "Shoot"}
	for name, tc := range map[string]struct {
		uid    types.UID
		age    time.Duration
		cached usage.Verdict
		// want is the first result; later is the next result if the caches then find no use.
		want, later usage.Verdict
	}{
		"the caches see nothing":            {uid: "a", want: used, later: used},
		"the caches cannot see":             {uid: "a", cached: usage.Verdict{Undecided: true, Why: "down"}, want: used, later: used},
		"the caches know, and then no more": {uid: "a", cached: usage.Verdict{By: "Plant"}, want: usage.Verdict{By: "Plant"}, later: unused},
		"the period is over":                {uid: "a", age: time.Hour, want: unused, later: unused},
		"another Project of the name":       {uid: "b", want: unused, later: unused},
		"there are no Shoots, says the cache": {
			uid: "a", cached: usage.Verdict{WithoutShoots: true}, want: usage.Verdict{By: "Shoot", WithoutShoots: true}, later: used,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &judgedProjects{}
			s.recordUse("p", liveUse{uid: "a", by: "Shoot", until: at(time.Hour)})
			g.Expect(s.completeUse("p", tc.uid, at(tc.age), tc.cached)).To(Equal(tc.want))
			g.Expect(s.completeUse("p", "a", at(0), unused)).To(Equal(tc.later))
			s.projects.Forget("p")
			g.Expect(s.completeUse("p", "a", at(0), unused)).To(Equal(unused))
		})
	}
}

func TestClocksMayDifferByMinutes(t *testing.T) {
	for name, tc := range map[string]struct {
		off  time.Duration
		want string
	}{
		"the same":       {},
		"minutes ahead":  {off: 5 * time.Minute},
		"minutes behind": {off: -5 * time.Minute},
		"too far ahead": {
			off: 5*time.Minute + time.Second,
			want: "refuse to delete for disuse: it is 2030-01-01T00:05:01Z here and 2030-01-01T00:00:00Z at the API server; set the clock " +
				"that is wrong",
		},
		"too far behind": {
			off: -time.Hour,
			want: "refuse to delete for disuse: it is 2029-12-31T23:00:00Z here and 2030-01-01T00:00:00Z at the API server; set the clock " +
				"that is wrong",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := compareClocks(clocktesting.NewFakePassiveClock(at(tc.off)), at(0))
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(tc.want))
		})
	}
}

func TestDaysLeft(t *testing.T) {
	for name, tc := range map[string]struct {
		left time.Duration
		want int
	}{
		"a week": {7 * day, 7}, "a second less": {7*day - time.Second, 7}, "six days": {6 * day, 6}, "a second": {time.Second, 1}, "none": {0, 0},
		"over": {-day, 0},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(daysLeft(at(0), at(tc.left))).To(Equal(tc.want)) })
	}
}
