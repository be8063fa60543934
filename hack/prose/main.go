// Command prose counts comment lines that a reader has to decode, such as "what the handler reads" instead of "the part of a Pod that the
// handler reads". `make lint` runs it in the root of the repository. For each package and kind of wording, hack/prose/limits.txt may
// contain a limit; without one, the limit is one in a hundred comment lines. The command fails if a package is above a limit. Limits may
// only fall.
//
//	prose           check all packages
//	prose -update   lower the limits to the current counts
package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	if err := run(".", slices.Contains(os.Args[1:], "-update"), os.Stderr); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run writes the comment lines of each package above a limit to out. If update is true, it lowers limits; it never raises one.
func run(root string, update bool, out io.Writer) error {
	file := filepath.Join(root, "hack", "prose", "limits.txt")
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read limits: %w", err)
	}
	before, err := parseLimits(string(content))
	if err != nil {
		return fmt.Errorf("read limits: %w", err)
	}
	packages, err := readPackages(os.DirFS(root))
	if err != nil {
		return err
	}
	excesses, lowered := judge(packages, before)
	for _, each := range excesses {
		_, _ = fmt.Fprintln(out, each)
	}
	if len(excesses) > 0 {
		err = errors.New("write nouns in these comments; CONTRIBUTING.md describes the rule")
	}
	switch {
	case maps.Equal(before, lowered):
	case update:
		err = errors.Join(err, os.WriteFile(file, []byte(formatLimits(lowered)), 0o600))
	default:
		err = errors.Join(err, errors.New("some packages are below their limits; lower these: go run ./hack/prose -update"))
	}
	return err
}
