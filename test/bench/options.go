package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// options are what the command line says.
type options struct {
	workloads []size
	// rest is the length of the window at rest.
	rest time.Duration
	// repairs is how many objects are spoiled, one after the other.
	repairs int
	// profiles is the folder that receives CPU and heap profiles of the controller; empty means none.
	profiles string
	// binary is measured instead of one that is built from this tree, if it is set.
	binary string
	// enforce makes missed ratios and counts fail the run.
	enforce bool
}

// size is a number of sets and of objects in each.
type size struct{ sets, objects int }

func (s size) String() string { return fmt.Sprintf("%d×%d", s.sets, s.objects) }

func (s size) total() int { return s.sets * s.objects }

// smoke replaces the defaults by a run of about a minute, which shows that everything can be measured.
var smoke = options{workloads: []size{{5, 20}}, rest: 15 * time.Second, repairs: 10}

// parseOptions prints the usage to out when asked for it, and then returns flag.ErrHelp.
func parseOptions(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(out)
	workloads := flags.String("workloads", "50x40,100x100", "what to measure: sets x objects in each, separated by commas")
	flags.DurationVar(&o.rest, "rest", 2*time.Minute, "length of the window at rest")
	flags.IntVar(&o.repairs, "repairs", 50, "how many objects to spoil")
	flags.StringVar(&o.profiles, "pprof", "", "folder for CPU and heap profiles of the controller (taking them costs a little time)")
	flags.StringVar(&o.binary, "binary", "", "measure this controller instead of building one, for comparisons")
	flags.BoolVar(&o.enforce, "enforce", false, "fail if a ratio or a number of requests misses its target")
	short := flags.Bool("smoke", false, "a small workload and short windows instead of the above")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *short {
		o.workloads, o.rest, o.repairs = smoke.workloads, smoke.rest, smoke.repairs
	} else {
		var err error
		if o.workloads, err = parseSizes(*workloads); err != nil {
			return options{}, fmt.Errorf("-workloads: %w", err)
		}
	}
	if o.rest <= 0 || o.repairs <= 0 {
		return options{}, errors.New("-rest and -repairs must be more than 0")
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

// parseSizes reads "50x40,100x100".
func parseSizes(text string) ([]size, error) {
	var sizes []size
	for field := range strings.SplitSeq(text, ",") {
		sets, objects, found := strings.Cut(strings.TrimSpace(field), "x")
		n, errSets := strconv.Atoi(sets)
		m, errObjects := strconv.Atoi(objects)
		if !found || errSets != nil || errObjects != nil || n < 1 || n > 999 || m < 10 || m > 999 {
			return nil, fmt.Errorf("%q is not a workload such as 50x40: 1 to 999 sets of 10 to 999 objects", field)
		}
		sizes = append(sizes, size{n, m})
	}
	return sizes, nil
}
