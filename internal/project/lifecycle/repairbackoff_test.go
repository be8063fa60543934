package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestRepairBackoff(t *testing.T) {
	for name, tc := range map[string]struct {
		at   []time.Duration // times of the repairs
		want []time.Duration // the pauses
	}{
		"a few repairs are made at once":            {at: []time.Duration{0, time.Second}, want: []time.Duration{0, 0}},
		"the third within a minute is the last one": {at: []time.Duration{0, 30 * time.Second, 60 * time.Second}, want: []time.Duration{0, 0, 10 * time.Second}},
		"repairs now and then are made at once":     {at: []time.Duration{0, 31 * time.Second, 62 * time.Second, 93 * time.Second}, want: []time.Duration{0, 0, 0, 0}},
		"who goes on waits longer": {
			at:   []time.Duration{0, 0, 0, 10 * time.Second, 30 * time.Second, 70 * time.Second, 150 * time.Second, 310 * time.Second, 610 * time.Second},
			want: []time.Duration{0, 0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 300 * time.Second, 300 * time.Second},
		},
		"the pause ends five minutes after the last repair": {at: []time.Duration{0, 0, 0, 311 * time.Second}, want: []time.Duration{0, 0, 10 * time.Second, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			g, d, start := NewWithT(t), newRepairBackoff(), time.Unix(1000, 0)
			var pauses []time.Duration
			for _, each := range tc.at {
				pause := d.recordRepair("alpha", "it", start.Add(each))
				g.Expect(d.remainingPause("alpha", "it", start.Add(each))).To(Equal(pause))
				pauses = append(pauses, pause)
			}
			g.Expect(pauses).To(Equal(tc.want))
			g.Expect(d.remainingPause("alpha", "other", start)).To(BeZero())
			g.Expect(d.remainingPause("beta", "it", start)).To(BeZero())
			d.forget("alpha")
			g.Expect(d.remainingPause("alpha", "it", start)).To(BeZero())
		})
	}
}
