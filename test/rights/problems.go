package main

import (
	"fmt"
	"slices"
	"strings"
)

// line identifies a right in a file.
type line struct{ binary, role, right string }

func (l line) String() string { return fmt.Sprintf("%s: %s: %q", l.binary, l.role, l.right) }

// texts returns a line for every right that is granted.
func texts(binaries []grants) map[line]bool {
	all := map[line]bool{}
	for _, each := range binaries {
		for _, r := range each.roles {
			for _, right := range r.rights {
				all[line{each.binary, r.key(), right.String()}] = true
			}
		}
	}
	return all
}

// lines lists the lines of a file.
func lines[M ~map[string]map[string]map[string]T, T any](file M) []line {
	var all []line
	for binary, roles := range file {
		for role, rights := range roles {
			for text := range rights {
				all = append(all, line{binary, role, text})
			}
		}
	}
	return all
}

// problems lists the differences between rights, evidence and reasons, in order. Wildcards need a reason even if they are used.
func problems(binaries []grants, used evidence, why reasons) []string {
	var all []string
	for _, each := range binaries {
		for _, r := range each.roles {
			for _, right := range r.rights {
				at := line{each.binary, r.key(), right.String()}
				reason, given := why[at.binary][at.role][at.right]
				needed := right.isWildcard() || len(used.of(use{at.binary, at.role, right})) == 0
				if problem := judge(reason, given, needed); problem != "" {
					all = append(all, at.String()+problem)
				}
			}
		}
	}
	granted := texts(binaries)
	for _, at := range lines(used) {
		if !granted[at] {
			all = append(all, at.String()+" is in used.yaml and is not granted")
		}
	}
	for _, at := range lines(why) {
		if !granted[at] {
			all = append(all, at.String()+" is in reasons.yaml and is not granted")
		}
	}
	slices.Sort(all)
	return all
}

// judge returns what is wrong with the reason for a right, as the end of a sentence; empty if it is right.
func judge(reason string, given, needed bool) string {
	switch {
	case given && strings.TrimSpace(reason) == "":
		return " has an empty reason"
	case given && !needed:
		return " is used, so that its reason is not needed: remove it from reasons.yaml"
	case !given && needed:
		return " is granted, and no suite uses it: use it in a test, remove its marker, or say in reasons.yaml why it is granted"
	}
	return ""
}
