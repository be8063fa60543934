package garbagecollector

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
)

func TestNotAll(t *testing.T) {
	failures := func(n int) []string {
		var texts []string
		for i := range n {
			texts = append(texts, fmt.Sprintf("e%02d", n-i))
		}
		return texts
	}
	for name, tc := range map[string]struct {
		failures []string
		want     string
	}{
		"one":     {failures: failures(1), want: "Could not delete all unused resources: 1 error occurred: e01"},
		"several": {failures: failures(3), want: "Could not delete all unused resources: 3 errors occurred: [e01, e02, e03]"},
		"many": {
			failures: failures(22),
			want: "Could not delete all unused resources: 22 errors occurred: [e01, e02, e03, e04, e05, e06, e07, e08, e09, e10, " +
				"e11, e12, e13, e14, e15, e16, e17, e18, e19, e20, and 2 more]",
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(notAll(tc.failures)).To(MatchError(tc.want)) })
	}
	NewWithT(t).Expect(notAll(nil)).To(Succeed())
}
