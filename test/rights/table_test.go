package main

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestTable(t *testing.T) {
	g := NewWithT(t)
	of := func(role string, bound bool, r right) grant {
		return grant{key: key{"x", role, r.String()}, bound: bound, right: r}
	}
	got := state{
		granted: []grant{
			of("cluster-admin", true, right{verb: "*", group: "*", resource: "*"}),
			of("n/r", false, right{verb: "list", resource: "pods", namespace: "n"}),
			of("n/r", false, right{verb: "get", resource: "pods", namespace: "n"}),
			of("s", true, right{verb: "get", url: "/x"}),
		},
		used: entries[[]string]{{"x", "cluster-admin", "* *.*"}: {"e2e"}, {"x", "n/r", "list pods in n"}: {"e2e", "internal/x"}},
		reasons: entries[string]{
			{"x", "cluster-admin", "* *.*"}: "Sets may hold\nanything.", {"x", "n/r", "get pods in n"}: "For a | b.",
		},
	}.table()
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
