package main

import (
	"bytes"
	"flag"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestParseOptions(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want options
		err  string
	}{
		"both published workloads are the default": {
			want: options{workloads: []size{{50, 40}, {100, 100}}, rest: 2 * time.Minute, repairs: 50},
		},
		"everything can be chosen": {
			args: []string{"-workloads", "7x11, 8x12", "-rest", "3m", "-repairs", "4", "-pprof", "/profiles", "-binary", "/other", "-enforce"},
			want: options{workloads: []size{{7, 11}, {8, 12}}, rest: 3 * time.Minute, repairs: 4, profiles: "/profiles", binary: "/other", enforce: true},
		},
		"a smoke run has sizes of its own": {
			args: []string{"-smoke", "-enforce"},
			want: options{workloads: []size{{5, 20}}, rest: 15 * time.Second, repairs: 10, enforce: true},
		},
		"a size without objects":              {args: []string{"-workloads", "50"}, err: `-workloads: "50" is not a workload such as 50x40: 1 to 999 sets of 10 to 999 objects`},
		"a size that lacks the changing part": {args: []string{"-workloads", "5x9"}, err: `-workloads: "5x9" is not a workload such as 50x40: 1 to 999 sets of 10 to 999 objects`},
		"an argument that is no flag":         {args: []string{"50x40"}, err: `unexpected argument "50x40"`},
		"no time at rest":                     {args: []string{"-rest", "0s"}, err: "-rest and -repairs must be more than 0"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := parseOptions(tc.args, &bytes.Buffer{})
			if tc.err != "" {
				g.Expect(err).To(MatchError(tc.err))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(tc.want))
		})
	}
}

func TestParseOptionsHelps(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	_, err := parseOptions([]string{"-h"}, &out)
	g.Expect(err).To(MatchError(flag.ErrHelp))
	g.Expect(out.String()).To(ContainSubstring("-smoke"))
}
