package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// suites are the available suites, by the names of folders in test/e2e.
type suites struct {
	// deployed are all binaries; binaries are those that have a suite.
	deployed, binaries []string
	// others check more than one binary, or disturb the cluster; they run only if they are named.
	others []string
}

// findSuites finds binaries in cmd/ and suites in test/e2e: folders with a test that has the build tag for end-to-end tests.
func findSuites(root string) (suites, error) {
	mains, err := filepath.Glob(filepath.Join(root, "cmd", "*", "main.go"))
	if err != nil {
		return suites{}, fmt.Errorf("find binaries: %w", err)
	}
	tests, err := filepath.Glob(filepath.Join(root, "test", "e2e", "*", "*_test.go"))
	if err != nil {
		return suites{}, fmt.Errorf("find suites: %w", err)
	}
	found := suites{}
	for _, file := range mains {
		found.deployed = append(found.deployed, filepath.Base(filepath.Dir(file)))
	}
	for _, file := range tests {
		content, err := os.ReadFile(file)
		if err != nil {
			return suites{}, fmt.Errorf("find suites: %w", err)
		}
		name := filepath.Base(filepath.Dir(file))
		if !bytes.HasPrefix(content, []byte("//go:build e2e\n")) || slices.Contains(found.binaries, name) || slices.Contains(found.others, name) {
			continue
		}
		if slices.Contains(found.deployed, name) {
			found.binaries = append(found.binaries, name)
		} else {
			found.others = append(found.others, name)
		}
	}
	return found, nil
}
