package node

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestPathsInTheTableOfMounts(t *testing.T) {
	cases := map[string][2]string{
		"a plain one":      {"/run/x", "/run/x"},
		"one with a blank": {`/run/a\040b`, "/run/a b"},
		"a backslash":      {`/run/a\134b`, `/run/a\b`},
	}
	for name, each := range cases {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(unescape(each[0])).To(Equal(each[1]))
		})
	}
}
