package repair_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/repair"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func second(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }

func TestTooManyRepairsCauseAPause(t *testing.T) {
	for name, tc := range map[string]struct {
		seconds []int
		want    time.Duration
	}{
		"two repairs cause no pause":               {seconds: []int{0, 1}},
		"the third repair within a minute does":    {seconds: []int{0, 1, 59}, want: 10 * time.Second},
		"the third repair after a minute does not": {seconds: []int{0, 30, 60}},
		"repairs now and then are made at once":    {seconds: []int{0, 31, 62, 93}},
		"the next pause is longer":                 {seconds: []int{0, 1, 2, 20, 21, 22}, want: 20 * time.Second},
		"no pause is longer than five minutes": {
			seconds: []int{0, 1, 2, 13, 14, 15, 36, 37, 38, 79, 80, 81, 162, 163, 164, 325, 326, 327, 628, 629, 630}, want: 5 * time.Minute,
		},
		"after a long time without repairs, the pause is short again": {
			seconds: []int{0, 1, 2, 20, 21, 22, 700, 701, 702}, want: 10 * time.Second,
		},
		"a repair after the pause does not make later ones long": {
			seconds: []int{0, 1, 2, 20, 700, 701, 702}, want: 10 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var b *repair.Backoff
			var pause time.Duration
			for _, at := range tc.seconds {
				b, pause = b.Repaired("kubectl-edit", second(at))
			}
			g.Expect(pause).To(Equal(tc.want))
			now := second(tc.seconds[len(tc.seconds)-1])
			g.Expect(b.Remaining(now)).To(Equal(tc.want))
			g.Expect(b.Remaining(now.Add(tc.want))).To(BeZero(), "the pause ends")
			g.Expect(b.Cause()).To(Equal("kubectl-edit"))
		})
	}
}

func TestRepairsAreCountedPerCause(t *testing.T) {
	g := NewWithT(t)
	var b *repair.Backoff
	for _, cause := range []string{"a", "b", "a", "b", "a", "b"} {
		next, pause := b.Repaired(cause, noon)
		g.Expect(pause).To(BeZero())
		b = next
	}
}

func TestAnObjectThatWasNotRepairedNeedNotWait(t *testing.T) {
	g := NewWithT(t)
	var none *repair.Backoff
	g.Expect(none.Remaining(noon)).To(BeZero())
	g.Expect(none.Pause()).To(BeZero())
	g.Expect(none.Cause()).To(BeEmpty())
}
