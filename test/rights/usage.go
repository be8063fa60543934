package main

import "strings"

// usage is what binaries have done with their rights.
type usage struct {
	binaries []grants
	// used has every right that somebody used, by binary and role.
	used map[use]bool
	// seen keeps requests that have been looked at: logs repeat few of them very often.
	seen map[seen]bool
	// denied, refused and beyond count requests by binary and then by text. Beyond are those that were allowed although
	// no role of the binary allows them: every user may do some things, and tests give more rights to some.
	denied, refused, beyond map[string]map[string]int
}

// use is a right of a binary's role.
type use struct {
	binary, role string
	right        right
}

type seen struct {
	binary  string
	request request
}

func newUsage(binaries []grants) *usage {
	return &usage{
		binaries: binaries, used: map[use]bool{}, seen: map[seen]bool{},
		denied: map[string]map[string]int{}, refused: map[string]map[string]int{}, beyond: map[string]map[string]int{},
	}
}

// accounts are ServiceAccounts under which tests run a part of a binary alone.
func accounts() map[string]string {
	return map[string]string{"collector": "managedresource-controller", "garbage-collector": "managedresource-controller"}
}

// binaryOf returns whose ServiceAccount the user is: espalier-<binary> where deploy/ puts it, <binary> in tests, in
// namespaces of their own. All others are nobody's, those of the controller manager included, of which one has the name of
// a binary.
func (u *usage) binaryOf(user string) (grants, bool) {
	namespace, name, ok := serviceAccount(user)
	if !ok || namespace == "kube-system" {
		return grants{}, false
	}
	name = strings.TrimPrefix(name, "espalier-")
	if of := accounts()[name]; of != "" {
		name = of
	}
	for _, each := range u.binaries {
		if each.binary == name {
			return each, true
		}
	}
	return grants{}, false
}

// add takes an event into account.
func (u *usage) add(e event) {
	of, ok := u.binaryOf(e.User.Username)
	if !ok {
		return
	}
	switch e.outcome() {
	case denied:
		count(u.denied, of.binary, e.request().String())
		return
	case refused:
		count(u.refused, of.binary, e.request().String())
	case allowed:
	}
	for _, q := range e.requests() {
		if key := (seen{of.binary, q}); !u.seen[key] {
			u.seen[key] = true
			if !u.mark(of, q) && q == e.request() {
				count(u.beyond, of.binary, strings.TrimSuffix(q.String()+" by "+e.allowedBy(), " by "))
			}
		}
	}
}

func count(counts map[string]map[string]int, binary, text string) {
	if counts[binary] == nil {
		counts[binary] = map[string]int{}
	}
	counts[binary][text]++
}

// mark notes every right that allows the request, in whichever role: the log does not tell for which of its purposes the
// binary sent it. A wildcard counts as used only by what no other role that is bound allows. It returns whether there is
// any such right.
func (u *usage) mark(of grants, q request) bool {
	listed := false
	for _, r := range of.roles {
		for _, each := range r.rights {
			if !each.isWildcard() && each.allows(q) {
				u.used[use{of.binary, r.key(), each}] = true
				listed = listed || r.bound
			}
		}
	}
	if listed {
		return true
	}
	found := false
	for _, r := range of.roles {
		for _, each := range r.rights {
			if each.allows(q) {
				u.used[use{of.binary, r.key(), each}] = true
				found = true
			}
		}
	}
	return found
}
