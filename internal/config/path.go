package config

import (
	"slices"
	"strconv"
	"strings"
)

// path leads to a field of a file: keys, and "[0]" for the items of lists.
type path []string

// child returns a copy of p that goes one step further.
func (p path) child(step string) path {
	return append(slices.Clip(p), step)
}

func (p path) item(index int) path {
	return p.child("[" + strconv.Itoa(index) + "]")
}

// String writes p as users read it: controllers.networkPolicy.namespaceSelectors[0].matchLabels.
func (p path) String() string {
	return strings.ReplaceAll(strings.Join(p, "."), ".[", "[")
}
