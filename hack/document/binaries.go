package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/espalier-dev/espalier/internal/deployable"
)

// mainFamily is the family of the binary that the project is about: its row is the first, and its page has the name of the family.
const mainFamily = "managedresource"

// binaries returns a table of all binaries. With the argument pages, it shows the page of each binary in docs/. With the argument clusters,
// it shows the objects that each binary reads and writes.
func (*writer) binaries(arguments []string) (string, error) {
	all := deployable.All()
	slices.SortStableFunc(all, func(a, b deployable.Binary) int { return cmp.Compare(rank(a), rank(b)) })
	var rows [][]string
	for _, each := range all {
		page := each.Name
		if each.Family == mainFamily {
			page = each.Family
		}
		switch arguments[0] {
		case "pages":
			rows = append(rows, []string{fmt.Sprintf("[%s](docs/%s.md)", code(each.Name), page), each.Does})
		case "clusters":
			rows = append(rows, []string{each.Name, each.Does, each.Reads, each.Writes})
		default:
			return "", fmt.Errorf("unknown columns %s of the table of binaries", arguments[0])
		}
	}
	return table([]string{"binary", "does", "reads", "writes"}[:len(rows[0])], rows), nil
}

func rank(b deployable.Binary) int {
	if b.Family == mainFamily {
		return 0
	}
	return 1
}
