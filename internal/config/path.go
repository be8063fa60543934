package config

import (
	"slices"
	"strconv"
	"strings"
)

// path is the path of a field in a file: keys, and "[0]" for the items of lists.
type path []string

// child returns a copy of p with one more step.
func (p path) child(step string) path {
	return append(slices.Clip(p), step)
}

func (p path) item(index int) path {
	return p.child("[" + strconv.Itoa(index) + "]")
}

// String formats p as in messages to users: controllers.networkPolicy.namespaceSelectors[0].matchLabels.
func (p path) String() string {
	return strings.ReplaceAll(strings.Join(p, "."), ".[", "[")
}
