package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// subject is a kind of wording in a package.
type subject struct {
	folder string
	kind   kind
}

// limits are the allowed numbers of comment lines, for packages that have more of a kind than one in a hundred.
type limits map[subject]int

const header = `# Packages in which more than one comment line in a hundred needs another wording: folder, kind (see count.go), and number.
# Numbers may only fall: go run ./hack/prose -update
`

// parseLimits reads lines "folder kind number".
func parseLimits(text string) (limits, error) {
	parsed := limits{}
	for i, row := range strings.Split(text, "\n") {
		if row == "" || strings.HasPrefix(row, "#") {
			continue
		}
		fields := strings.Fields(row)
		if len(fields) != 3 {
			return nil, fmt.Errorf("line %d: want folder, kind and number, got %q", i+1, row)
		}
		number, err := strconv.Atoi(fields[2])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		parsed[subject{folder: fields[0], kind: kind(fields[1])}] = number
	}
	return parsed, nil
}

func formatLimits(all limits) string {
	rows := make([]string, 0, len(all))
	for each, number := range all {
		rows = append(rows, fmt.Sprintf("%s %s %d\n", each.folder, each.kind, number))
	}
	slices.Sort(rows)
	return header + strings.Join(rows, "")
}

// judge returns a text about each subject above its limit, and the lowest possible limits, none of which is higher than before.
func judge(packages map[string]*comments, before limits) (excesses []string, lowered limits) {
	lowered = limits{}
	kinds := slices.Sorted(maps.Keys(rules()))
	for _, folder := range slices.Sorted(maps.Keys(packages)) {
		for _, kind := range kinds {
			found, general := packages[folder].found[kind], packages[folder].lines/100
			about := subject{folder: folder, kind: kind}
			limit, listed := before[about]
			if len(found) > max(limit, general) {
				excesses = append(excesses, describe(about, found, max(limit, general)))
			}
			if number := min(limit, len(found)); listed && number > general {
				lowered[about] = number
			}
		}
	}
	return excesses, lowered
}

func describe(about subject, found []finding, limit int) string {
	text := strings.Builder{}
	fmt.Fprintf(&text, "%s: %d comment lines of kind %s, at most %d are allowed:", about.folder, len(found), about.kind, limit)
	for _, each := range found {
		text.WriteString("\n  " + each.String())
	}
	return text.String()
}
