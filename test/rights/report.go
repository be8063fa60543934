package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
)

// printReport prints the results of the logs, including what no table contains: requests without rights, and with rights of other roles.
func printReport(out io.Writer, suite string, u *usage) {
	for _, each := range u.binaries {
		granted, used := 0, 0
		for _, r := range each.roles {
			for _, right := range r.rights {
				granted++
				if u.used[use{each.binary, r.key(), right}] {
					used++
				}
			}
		}
		fmt.Fprintf(out, "%s: %s has used %d of %d rights\n", suite, each.binary, used, granted)
		printCounts(out, "denied", u.denied[each.binary])
		printCounts(out, "refused after authorization", u.refused[each.binary])
		printCounts(out, "allowed by no role of the binary", u.beyond[each.binary])
	}
}

func printCounts(out io.Writer, what string, counts map[string]int) {
	for _, text := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(out, "  %s: %s (%d)\n", what, text, counts[text])
	}
}
