package applier

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestPauseAfterPlan(t *testing.T) {
	for name, tc := range map[string]struct {
		took     time.Duration
		failures int
		want     time.Duration
	}{
		"a quick plan":                 {took: time.Millisecond, want: time.Second},
		"a plan of many objects":       {took: 3 * time.Second, want: 12 * time.Second},
		"a plan that took very long":   {took: 3 * time.Minute, want: time.Minute},
		"not published for once":       {failures: 1, want: time.Second},
		"not published twice":          {failures: 2, want: 2 * time.Second},
		"not published six times":      {failures: 6, want: 32 * time.Second},
		"not published for a day":      {failures: 1440, want: time.Minute},
		"slow, and not published":      {took: time.Second, failures: 3, want: 16 * time.Second},
		"no time to speak of, at once": {want: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(pauseAfterPlan(tc.took, tc.failures)).To(Equal(tc.want))
		})
	}
}
