package main

import (
	"bytes"
	"flag"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestParseOptions(t *testing.T) {
	sized := func(sets, objects int) workload {
		return workload{size: size{sets, objects}, rest: 2 * time.Minute, repairs: 50, calm: time.Second}
	}
	acrossClusters := func(w workload) workload {
		w.twoClusters = true
		return w
	}
	for name, tc := range map[string]struct {
		args []string
		want options
		err  string
	}{
		"both published workloads are the default": {
			want: options{jobs: []job{workloads{sized(50, 40), sized(100, 100)}}},
		},
		"everything about workloads can be chosen": {
			args: []string{"-workloads", "7x11, 8x12", "-two-clusters", "-rest", "3m", "-repairs", "4", "-pprof", "/profiles", "-binary", "/other", "-enforce"},
			want: options{
				jobs: []job{workloads{
					{size: size{7, 11}, twoClusters: true, rest: 3 * time.Minute, repairs: 4, calm: time.Second},
					{size: size{8, 12}, twoClusters: true, rest: 3 * time.Minute, repairs: 4, calm: time.Second},
				}},
				profiles: "/profiles", binary: "/other", enforce: true,
			},
		},
		"latency is measured over a hundred Deployments": {
			args: []string{"-latency"},
			want: options{jobs: []job{latency{deployments: 100, together: []int{1, 10}}}},
		},
		"scale is large workloads, two clusters, and many Secrets": {
			args: []string{"-scale"},
			want: options{jobs: []job{
				workloads{sized(1000, 10), sized(500, 100), acrossClusters(sized(1000, 10))},
				foreignSecrets{secrets: 80000, sets: size{10, 10}, starts: 3, wait: time.Minute},
			}},
		},
		"another number of Secrets belongs to scale as well": {
			args: []string{"-scale", "-secrets", "7", "-rest", "5m"},
			want: options{jobs: []job{
				workloads{
					{size: size{1000, 10}, rest: 5 * time.Minute, repairs: 50, calm: time.Second},
					{size: size{500, 100}, rest: 5 * time.Minute, repairs: 50, calm: time.Second},
					{size: size{1000, 10}, twoClusters: true, rest: 5 * time.Minute, repairs: 50, calm: time.Second},
				},
				foreignSecrets{secrets: 7, sets: size{10, 10}, starts: 3, wait: time.Minute},
			}},
		},
		"many Secrets can be measured alone": {
			args: []string{"-secrets", "7"},
			want: options{jobs: []job{foreignSecrets{secrets: 7, sets: size{10, 10}, starts: 3, wait: time.Minute}}},
		},
		"a soak looks twice a minute": {
			args: []string{"-soak", "1h", "-enforce"},
			want: options{jobs: []job{soak{length: time.Hour, interval: 30 * time.Second, churned: 12, steady: 10, secrets: 2000}}, enforce: true},
		},
		"a short soak looks more often": {
			args: []string{"-soak", "1m"},
			want: options{jobs: []job{soak{length: time.Minute, interval: 3 * time.Second, churned: 12, steady: 10, secrets: 2000}}},
		},
		"a smoke run has sizes of its own, for everything": {
			args: []string{"-smoke", "-enforce"},
			want: options{
				jobs: []job{
					workloads{{size: size{5, 20}, rest: 15 * time.Second, repairs: 10, calm: time.Second}},
					latency{deployments: 6, together: []int{1, 3}},
					workloads{{size: size{3, 10}, twoClusters: true, rest: time.Second, repairs: 4, calm: 100 * time.Millisecond}},
					foreignSecrets{secrets: 200, sets: size{2, 10}, starts: 1, wait: time.Second},
					soak{length: 10 * time.Second, interval: 500 * time.Millisecond, churned: 3, steady: 2, secrets: 40},
				},
				enforce: true,
			},
		},
		"a smoke run of one thing": {
			args: []string{"-smoke", "-latency"},
			want: options{jobs: []job{latency{deployments: 6, together: []int{1, 3}}}},
		},
		"a size without objects":              {args: []string{"-workloads", "50"}, err: `-workloads: "50" is not a workload such as 50x40: 1 to 9999 sets of 10 to 999 objects`},
		"a size that lacks the changing part": {args: []string{"-workloads", "5x9"}, err: `-workloads: "5x9" is not a workload such as 50x40: 1 to 9999 sets of 10 to 999 objects`},
		"an argument that is no flag":         {args: []string{"50x40"}, err: `unexpected argument "50x40"`},
		"no time at rest":                     {args: []string{"-rest", "0s"}, err: "-rest and -repairs must be more than 0"},
		"less than no soak":                   {args: []string{"-soak", "-1s"}, err: "-secrets and -soak must not be less than 0"},
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
