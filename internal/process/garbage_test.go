package process

import (
	"runtime/debug"
	"testing"

	. "github.com/onsi/gomega"
)

func TestTheEnvironmentOverrulesTheLimitOfGarbage(t *testing.T) {
	for name, tc := range map[string]struct {
		value string
		set   bool
		want  int
	}{
		"the environment says nothing":   {want: 25},
		"the environment says something": {value: "75", set: true, want: 75},
	} {
		t.Run(name, func(t *testing.T) {
			before := debug.SetGCPercent(75)
			defer debug.SetGCPercent(before)
			LimitGarbage(25, func(variable string) (string, bool) { return tc.value, tc.set && variable == "GOGC" })
			NewWithT(t).Expect(debug.SetGCPercent(before)).To(Equal(tc.want))
		})
	}
}
