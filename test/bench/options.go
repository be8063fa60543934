package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// job is an independent measurement.
type job interface {
	// run returns the rows that could be measured, even with an error. Afterwards nothing is running, even after an error.
	run(ctx context.Context, r runner) ([]row, error)
}

// options are the values of the command line.
type options struct {
	jobs []job
	// profiles is the folder for CPU and heap profiles of the controller; empty means none.
	profiles string
	// binary, if set, is measured instead of one that is built from this tree.
	binary string
	// enforce makes the run fail if ratios, counts and bounds of growth miss their targets.
	enforce bool
}

// size is a number of sets and of objects in each.
type size struct{ sets, objects int }

func (s size) String() string { return fmt.Sprintf("%d×%d", s.sets, s.objects) }

func (s size) total() int { return s.sets * s.objects }

// settings are the flags that select jobs.
type settings struct {
	workloads      string
	twoClusters    bool
	rest           time.Duration
	repairs        int
	latency, scale bool
	secrets        int
	soak           time.Duration
	smoke          bool
}

// parseOptions prints the usage to out if it is requested, and then returns flag.ErrHelp.
func parseOptions(args []string, out io.Writer) (options, error) {
	var o options
	var s settings
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&s.workloads, "workloads", "50x40,100x100", "what to measure: sets x objects in each, separated by commas")
	flags.BoolVar(&s.twoClusters, "two-clusters", false, "put the objects of the workloads into another cluster than their sets")
	flags.DurationVar(&s.rest, "rest", 2*time.Minute, "length of the window at rest")
	flags.IntVar(&s.repairs, "repairs", 50, "how many objects to spoil")
	flags.BoolVar(&s.latency, "latency", false, "measure the latency of conditions instead of the workloads")
	flags.BoolVar(&s.scale, "scale", false, "measure large workloads, two clusters and very many foreign Secrets instead of the workloads")
	flags.IntVar(&s.secrets, "secrets", 0, "measure a source with that many foreign Secrets instead of the workloads")
	flags.DurationVar(&s.soak, "soak", 0, "look for growth over that time of continuous change instead of measuring the workloads")
	flags.BoolVar(&s.smoke, "smoke", false, "small sizes and short windows instead of the above; without one of them, all of them")
	flags.StringVar(&o.profiles, "pprof", "", "folder for profiles of the controller (taking them costs a little time)")
	flags.StringVar(&o.binary, "binary", "", "measure this controller instead of building one, for comparisons")
	flags.BoolVar(&o.enforce, "enforce", false, "fail if a ratio, a number of requests or a bound of growth misses its target")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	var err error
	if o.jobs, err = s.jobs(); err != nil {
		return options{}, err
	}
	for name, path := range map[string]*string{"-pprof": &o.profiles, "-binary": &o.binary} {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return options{}, fmt.Errorf("%s: %w", name, err)
		}
		*path = absolute
	}
	return o, nil
}

func (s settings) jobs() ([]job, error) {
	sizes, err := parseSizes(s.workloads)
	if err != nil {
		return nil, fmt.Errorf("-workloads: %w", err)
	}
	switch {
	case s.rest <= 0 || s.repairs <= 0:
		return nil, errors.New("-rest and -repairs must be more than 0")
	case s.secrets < 0 || s.soak < 0:
		return nil, errors.New("-secrets and -soak must not be less than 0")
	case s.smoke:
		return s.smokeJobs(), nil
	}
	var jobs []job
	if s.latency {
		jobs = append(jobs, latency{deployments: 100, together: []int{1, 10}})
	}
	if s.scale {
		jobs = append(jobs, workloads{s.workload(size{1000, 10}), s.workload(size{500, 100}), s.acrossClusters(size{1000, 10})})
	}
	many := s.secrets
	if s.scale && many == 0 {
		many = 80000
	}
	if many > 0 {
		jobs = append(jobs, foreignSecrets{secrets: many, sets: size{10, 10}, starts: 3, wait: time.Minute})
	}
	if s.soak > 0 {
		jobs = append(jobs, soak{length: s.soak, interval: min(30*time.Second, s.soak/20), churned: 12, steady: 10, secrets: 2000})
	}
	if len(jobs) > 0 {
		return jobs, nil
	}
	var all workloads
	for _, size := range sizes {
		w := s.workload(size)
		w.twoClusters = s.twoClusters
		all = append(all, w)
	}
	return []job{all}, nil
}

func (s settings) workload(sets size) workload {
	return workload{size: sets, rest: s.rest, repairs: s.repairs, calm: time.Second}
}

func (s settings) acrossClusters(sets size) workload {
	w := s.workload(sets)
	w.twoClusters = true
	return w
}

// smokeJobs take about two minutes and show that everything can be measured. Their figures are not meaningful.
func (s settings) smokeJobs() []job {
	all := !s.latency && !s.scale && s.secrets == 0 && s.soak == 0
	var jobs []job
	if all {
		jobs = append(jobs, workloads{{size: size{5, 20}, rest: 15 * time.Second, repairs: 10, calm: time.Second}})
	}
	if all || s.latency {
		jobs = append(jobs, latency{deployments: 6, together: []int{1, 3}})
	}
	if all || s.scale {
		jobs = append(jobs, workloads{{size: size{3, 10}, twoClusters: true, rest: time.Second, repairs: 4, calm: 100 * time.Millisecond}})
	}
	if all || s.scale || s.secrets > 0 {
		jobs = append(jobs, foreignSecrets{secrets: 200, sets: size{2, 10}, starts: 1, wait: time.Second})
	}
	if all || s.soak > 0 {
		jobs = append(jobs, soak{length: 10 * time.Second, interval: 500 * time.Millisecond, churned: 3, steady: 2, secrets: 40})
	}
	return jobs
}

// parseSizes parses "50x40,100x100".
func parseSizes(text string) ([]size, error) {
	var sizes []size
	for field := range strings.SplitSeq(text, ",") {
		sets, objects, found := strings.Cut(strings.TrimSpace(field), "x")
		n, errSets := strconv.Atoi(sets)
		m, errObjects := strconv.Atoi(objects)
		if !found || errSets != nil || errObjects != nil || n < 1 || n > 9999 || m < 10 || m > 999 {
			return nil, fmt.Errorf("%q is not a workload such as 50x40: 1 to 9999 sets of 10 to 999 objects", field)
		}
		sizes = append(sizes, size{n, m})
	}
	return sizes, nil
}
