package eviction

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

const (
	restriction = "eviction-requirements.autoscaling.gardener.cloud/downscale-restriction"
	windowName  = "shoot.gardener.cloud/maintenance-window"
)

func TestDecide(t *testing.T) {
	at := func(clock string) time.Time {
		now, err := time.Parse(time.RFC3339, "2026-06-01T"+clock+"Z")
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return now
	}
	inWindow := func(window string) map[string]string {
		return map[string]string{restriction: "in-maintenance-window-only", windowName: window}
	}
	const window = "220000+0100,230000+0100"
	for sentence, tc := range map[string]struct {
		annotations map[string]string
		now         time.Time
		want        *decision
		problem     string
	}{
		"never": {annotations: map[string]string{restriction: "never"}, want: &decision{onlyUpscale: true}},
		"never, even in a window": {
			annotations: map[string]string{restriction: "never", windowName: window}, now: at("21:30:00"), want: &decision{onlyUpscale: true},
		},
		"before the window": {
			annotations: inWindow(window), now: at("20:00:00"), want: &decision{onlyUpscale: true, remains: time.Hour},
		},
		"in the window":    {annotations: inWindow(window), now: at("21:59:59"), want: &decision{remains: time.Second}},
		"after the window": {annotations: inWindow(window), now: at("22:00:00"), want: &decision{onlyUpscale: true, remains: 23 * time.Hour}},
		"in a window that lasts the whole day": {
			annotations: inWindow("000000+0000,235959+0000"), now: at("12:00:00"), want: &decision{},
		},

		"a window that cannot be read": {
			annotations: inWindow("22:00,23:00"), want: &decision{onlyUpscale: true}, problem: "read annotation " + windowName + ": begin: ",
		},
		"a window without a comma": {
			annotations: inWindow("220000+0100"), want: &decision{onlyUpscale: true}, problem: `"220000+0100" is not of the form begin,end`,
		},
		"a window without an end": {annotations: inWindow("220000+0100,"), want: &decision{onlyUpscale: true}, problem: "end: "},
		"an empty window":         {annotations: inWindow(","), want: &decision{onlyUpscale: true}, problem: "is not of the form begin,end"},
		"no window": {
			annotations: map[string]string{restriction: "in-maintenance-window-only"}, want: &decision{onlyUpscale: true},
			problem: `"" is not of the form begin,end`,
		},
		"no restriction": {
			annotations: map[string]string{windowName: window}, problem: "annotation " + restriction + ` has the value ""`,
		},
		"a restriction that is not known": {
			annotations: map[string]string{restriction: "sometimes"},
			problem:     `has the value "sometimes", neither "never" nor "in-maintenance-window-only"`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			got, err := decide(tc.annotations, tc.now)
			g.Expect(got).To(Equal(tc.want))
			if tc.problem == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring(tc.problem)))
			}
		})
	}
}
