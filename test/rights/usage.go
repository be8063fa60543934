package main

import "strings"

// usage records how binaries have used their rights.
type usage struct {
	binaries []grants
	// used contains every right that was used, by binary and role.
	used map[use]bool
	// seen contains requests that have been processed: logs repeat few requests very often.
	seen map[seen]bool
	// denied, refused and beyond count requests by binary and then by text. Beyond contains those that were allowed although no role of the
	// binary allows them: all users have some rights, and tests grant more rights in some cases.
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

// accounts are ServiceAccounts with which tests run only a part of a binary.
func accounts() map[string]string {
	return map[string]string{"collector": "managedresource-controller", "garbage-collector": "managedresource-controller"}
}

// binaryOf returns the binary whose ServiceAccount the user is: espalier-<binary> in the namespace of deploy/, <binary> in the namespaces
// of tests. It returns false for all others, including those of the controller manager, one of which has the name of a binary.
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

// add processes an event.
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

// mark records every right that allows the request, in all roles: the log does not show the purpose of the request. A wildcard counts as
// used only if no other bound role allows the request. It returns whether there is any such right.
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
