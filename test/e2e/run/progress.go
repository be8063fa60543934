package main

import (
	"strings"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
	"github.com/espalier-dev/espalier/test/local"
)

// progress passes the lines with the results of single specs, without their prefix, and drops the others.
func progress(to func(line string)) *local.Lines {
	return &local.Lines{To: func(line string) {
		if text, ok := strings.CutPrefix(line, cluster.ProgressPrefix); ok {
			to(text)
		}
	}}
}
