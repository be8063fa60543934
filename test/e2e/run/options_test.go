package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/gomega"
)

func TestParseOptions(t *testing.T) {
	here, err := os.Getwd()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, tc := range map[string]struct {
		args []string
		env  map[string]string
		want options
		err  string
	}{
		"a node on this machine, unless the user says otherwise": {want: options{cluster: "node"}},
		"the shell's cluster": {
			env:  map[string]string{"KUBECONFIG": "k", "E2E_VERSION": "v1", "E2E_REPOSITORY": "r.example.com/e"},
			want: options{cluster: "own", kubeconfig: here + "/k", version: "v1", repository: "r.example.com/e"},
		},
		"the shell's cluster, without a word about its images": {env: map[string]string{"KUBECONFIG": "k"}, err: "set E2E_VERSION"},
		"a node although the shell has a cluster": {
			env:  map[string]string{"KUBECONFIG": "k", "E2E_CLUSTER": "node"},
			want: options{cluster: "node", kubeconfig: "k"},
		},
		"kind, with flags and names": {
			args: []string{"-labels", "smoke", "-without", "b", "-keep", "one", "two"}, env: map[string]string{"E2E_CLUSTER": "kind"},
			want: options{cluster: "kind", labels: "smoke", without: "b", keep: true, suites: []string{"one", "two"}},
		},
		"a kind of cluster that there is not": {
			env: map[string]string{"E2E_CLUSTER": "minikube"},
			err: `"minikube" is neither node nor kind`,
		},
		"images of elsewhere that are built here": {
			env: map[string]string{"E2E_REPOSITORY": "r.example.com/e"},
			err: "E2E_REPOSITORY is for clusters of your own",
		},
		"one binary left out, and each of them too": {args: []string{"-matrix", "-without", "b"}, err: "exclude each other"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o, err := parseOptions(tc.args, func(key string) string { return tc.env[key] })
			if tc.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tc.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(o).To(BeComparableTo(tc.want, cmp.AllowUnexported(options{}), cmpopts.EquateEmpty()))
		})
	}
}

func TestRounds(t *testing.T) {
	known := suites{deployed: []string{"a", "b", "bare"}, binaries: []string{"a", "b"}, others: []string{"faults"}}
	for name, tc := range map[string]struct {
		options options
		want    []round
		err     string
	}{
		"the suites of all binaries":   {want: []round{{suites: []string{"a", "b"}}}},
		"those that are named":         {options: options{suites: []string{"faults", "a"}}, want: []round{{suites: []string{"faults", "a"}}}},
		"one left out, with its suite": {options: options{without: "a"}, want: []round{{without: "a", suites: []string{"b"}}}},
		"each left out once, also one that is untested": {
			options: options{matrix: true},
			want: []round{
				{without: "a", suites: []string{"b"}},
				{without: "b", suites: []string{"a"}},
				{without: "bare", suites: []string{"a", "b"}},
			},
		},
		"a suite that is not there":  {options: options{suites: []string{"c"}}, err: `no suite "c"`},
		"a binary that is not there": {options: options{without: "c"}, err: `no binary "c"`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			rounds, err := tc.options.rounds(known)
			if tc.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tc.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(rounds).To(Equal(tc.want))
		})
	}
}

func TestFilter(t *testing.T) {
	for name, tc := range map[string]struct{ labels, without, want string }{
		"everything":                     {},
		"some":                           {labels: "smoke", want: "smoke"},
		"what needs no missing binary":   {without: "webhook-server", want: "!needs-webhook-server"},
		"some of them, of several kinds": {labels: "smoke || slow", without: "b", want: "(smoke || slow) && !needs-b"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(options{labels: tc.labels}.filter(tc.without)).To(Equal(tc.want))
		})
	}
}
