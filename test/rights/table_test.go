package main

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestTable(t *testing.T) {
	g := NewWithT(t)
	granted := []grants{{binary: "x", roles: []role{
		{name: "cluster-admin", bound: true, rights: []right{{verb: "*", group: "*", resource: "*"}}},
		{name: "empty"},
		{
			name: "r", namespace: "n",
			rights: []right{{verb: "list", resource: "pods", namespace: "n"}, {verb: "get", resource: "pods", namespace: "n"}},
		},
		{name: "s", bound: true, rights: []right{{verb: "get", url: "/x"}}},
	}}}
	got := table(granted,
		evidence{"x": {"cluster-admin": {"* *.*": {"e2e"}}, "n/r": {"list pods in n": {"e2e", "internal/x"}}}},
		reasons{"x": {"cluster-admin": {"* *.*": "Sets may hold\nanything."}, "n/r": {"get pods in n": "For a | b."}}})
	text, ok := strings.CutPrefix(got, preface)
	g.Expect(ok).To(BeTrue())
	g.Expect(text).To(Equal("| binary | rights granted | used | with a reason instead |\n|---|---|---|---|\n" +
		"| [x](#x) | 4 | 2 | 1 |\n" +
		"| all | 4 | 2 | 1 |\n" +
		"\n## x\n" +
		"\nClusterRole `cluster-admin`:\n\n| right | used by, or why it is granted |\n|---|---|\n" +
		"| `* *.*` | *e2e*. Sets may hold anything. |\n" +
		"\nRole `r` in namespace `n`, which is not bound by default:\n\n| right | used by, or why it is granted |\n|---|---|\n" +
		"| `list pods in n` | *e2e*, `internal/x` |\n" +
		"| `get pods in n` | For a \\| b. |\n" +
		"\nClusterRole `s`:\n\n| right | used by, or why it is granted |\n|---|---|\n" +
		"| `get /x` | **not used, and no reason is given** |\n"))
}
