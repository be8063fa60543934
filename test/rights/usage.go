package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// usage records how binaries have used their rights.
type usage struct {
	granted []grant
	// used contains the rights that were used.
	used map[key]bool
	// seen contains the requests that were already processed, by binary: logs contain few different requests very often.
	seen map[string]map[right]bool
	// findings counts the requests that are printed.
	findings map[finding]int
}

// finding is a request of a binary that is not in the table and is printed.
type finding struct {
	binary  string
	outcome outcome
	text    string
}

func newUsage(granted []grant) *usage {
	u := &usage{granted: granted, used: map[key]bool{}, seen: map[string]map[right]bool{}, findings: map[finding]int{}}
	for _, each := range granted {
		u.seen[each.binary] = map[right]bool{}
	}
	return u
}

// binaryOf returns the binary that runs as the user: the ServiceAccount espalier-<binary> in the namespace of deploy/, or <binary> in
// namespaces of tests. It returns false for all other users, also for ServiceAccounts of kube-controller-manager, one of which has the name
// of a binary.
func (u *usage) binaryOf(user string) (string, bool) {
	namespace, name, err := serviceaccount.SplitUsername(user)
	if err != nil || namespace == metav1.NamespaceSystem {
		return "", false
	}
	name = strings.TrimPrefix(name, "espalier-")
	if name == "collector" || name == "garbage-collector" { // tests with these names run only a part of the binary
		name = "managedresource-controller"
	}
	return name, u.seen[name] != nil
}

func (u *usage) add(e event) {
	binary, ok := u.binaryOf(e.User.Username)
	if !ok {
		return
	}
	own, result := e.request(), e.outcome()
	if result != allowed {
		u.findings[finding{binary, result, own.String()}]++
	}
	if result == denied {
		return
	}
	for _, q := range e.requests() {
		if u.seen[binary][q] {
			continue
		}
		u.seen[binary][q] = true
		if !u.mark(binary, q) && q == own {
			u.findings[finding{binary, outsideRoles, strings.TrimSuffix(q.String()+" by "+e.allowedBy(), " by ")}]++
		}
	}
}

// mark records every right that allows the request, in all roles of the binary: the log does not show for which purpose the request was
// sent. A wildcard counts as used only if no other bound role allows the request. mark reports whether there is such a right.
func (u *usage) mark(binary string, q right) bool {
	var listed, wildcards []grant
	for _, each := range u.granted {
		switch {
		case each.binary != binary || !each.right.allows(q):
		case each.right.isWildcard():
			wildcards = append(wildcards, each)
		default:
			listed = append(listed, each)
		}
	}
	if !slices.ContainsFunc(listed, func(each grant) bool { return each.bound }) {
		listed = append(listed, wildcards...)
	}
	for _, each := range listed {
		u.used[each.key] = true
	}
	return len(listed) > 0
}

// print prints the numbers of a suite, and the requests that are not in the table: requests without a right, and requests that other roles
// allow.
func (u *usage) print(out io.Writer, suite string) {
	granted, used := map[string]int{}, map[string]int{}
	binaries := make([]string, 0, len(u.granted))
	for _, each := range u.granted {
		granted[each.binary]++
		if u.used[each.key] {
			used[each.binary]++
		}
		binaries = append(binaries, each.binary)
	}
	for _, binary := range slices.Compact(binaries) {
		fmt.Fprintf(out, "%s: %s has used %d of %d rights\n", suite, binary, used[binary], granted[binary])
		for _, what := range []outcome{denied, refused, outsideRoles} {
			for _, each := range slices.SortedFunc(maps.Keys(u.findings), func(a, b finding) int { return strings.Compare(a.text, b.text) }) {
				if each.binary == binary && each.outcome == what {
					fmt.Fprintf(out, "  %s: %s (%d)\n", what, each.text, u.findings[each])
				}
			}
		}
	}
}
