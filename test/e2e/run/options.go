package main

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
)

// Kinds of clusters.
const (
	clusterNode = "node"
	clusterKind = "kind"
	clusterOwn  = "own"
)

// options are the values of flags and environment.
type options struct {
	// labels is a label filter of Ginkgo; empty selects all specs.
	labels string
	// without is a binary that is not deployed. With matrix, there is one round for each binary, without that binary.
	without string
	matrix  bool
	// keep is true if the cluster that this run has started must not be stopped.
	keep bool
	// suites are the named suites; empty means the suites of all binaries.
	suites []string

	cluster, kubeconfig, version, repository string
}

func parseOptions(args []string, getenv func(string) string) (options, error) {
	o := options{
		cluster: getenv("E2E_CLUSTER"), kubeconfig: getenv("KUBECONFIG"),
		version: getenv("E2E_VERSION"), repository: getenv("E2E_REPOSITORY"),
	}
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.StringVar(&o.labels, "labels", "", "run specs with these labels only, such as smoke")
	flags.StringVar(&o.without, "without", "", "do not deploy this binary, and run the suites of all others")
	flags.BoolVar(&o.matrix, "matrix", false, "leave out each binary once, and run the suites of all others each time")
	flags.BoolVar(&o.keep, "keep", false, "leave the cluster running if this run has started it")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	o.suites = flags.Args()
	return o.resolve()
}

// resolve determines the cluster, and returns an error for contradictory options.
func (o options) resolve() (options, error) {
	if o.matrix && o.without != "" {
		return options{}, errors.New("-matrix and -without exclude each other")
	}
	switch {
	case o.cluster == "" && o.kubeconfig != "":
		o.cluster = clusterOwn
		if o.version == "" {
			return options{}, errors.New("KUBECONFIG is set, so its cluster is used: set E2E_VERSION (and E2E_REPOSITORY) to the images that it " +
				"can pull, or set E2E_CLUSTER=node to start a cluster here")
		}
		var err error
		if o.kubeconfig, err = filepath.Abs(o.kubeconfig); err != nil { // suites run in other working folders
			return options{}, fmt.Errorf("find KUBECONFIG: %w", err)
		}
	case o.cluster == "" || o.cluster == clusterNode:
		o.cluster = clusterNode
	case o.cluster != clusterKind:
		return options{}, fmt.Errorf("E2E_CLUSTER: %q is neither %s nor %s", o.cluster, clusterNode, clusterKind)
	}
	if o.cluster != clusterOwn && o.repository != "" {
		return options{}, errors.New("E2E_REPOSITORY is for clusters of your own: images that are built here are called espalier.local/<binary>")
	}
	return o, nil
}

// round is a list of suites that run while at most one binary is left out.
type round struct {
	without string
	suites  []string
}

// rounds returns the rounds to run, in order.
func (o options) rounds(known suites) ([]round, error) {
	for _, each := range o.suites {
		if !slices.Contains(known.binaries, each) && !slices.Contains(known.others, each) {
			return nil, fmt.Errorf("there is no suite %q; there are %v, and by name only %v", each, known.binaries, known.others)
		}
	}
	if o.without != "" && !slices.Contains(known.deployed, o.without) {
		return nil, fmt.Errorf("-without: there is no binary %q; there are %v", o.without, known.deployed)
	}
	wanted := o.suites
	if len(wanted) == 0 {
		wanted = known.binaries
	}
	if !o.matrix {
		return []round{{without: o.without, suites: except(wanted, o.without)}}, nil
	}
	rounds := make([]round, 0, len(known.deployed))
	for _, binary := range known.deployed {
		rounds = append(rounds, round{without: binary, suites: except(wanted, binary)})
	}
	return rounds, nil
}

// except returns the names without the given one.
func except(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(each string) bool { return each == name })
}

// filter returns the label filter of the flags, which also excludes specs that need the binary that the round leaves out.
func (o options) filter(without string) string {
	switch {
	case without == "":
		return o.labels
	case o.labels == "":
		return "!needs-" + without
	}
	return "(" + o.labels + ") && !needs-" + without
}

// suites are the available suites, by the names of their folders in test/e2e.
type suites struct {
	// deployed are all binaries. binaries are the binaries that have a suite.
	deployed, binaries []string
	// others are suites that check more than one binary, or disturb the cluster; they run only if they are named.
	others []string
}

// findSuites finds the suites: the folders of test/e2e with a suite_test.go. A suite with the name of a deployed binary belongs to it; all
// other suites are in others.
func findSuites(root string, deployed []string) (suites, error) {
	files, err := filepath.Glob(filepath.Join(root, "test", "e2e", "*", "suite_test.go"))
	if err != nil {
		return suites{}, fmt.Errorf("find suites: %w", err)
	}
	found := suites{deployed: deployed}
	for _, file := range files {
		if name := filepath.Base(filepath.Dir(file)); slices.Contains(deployed, name) {
			found.binaries = append(found.binaries, name)
		} else {
			found.others = append(found.others, name)
		}
	}
	return found, nil
}
