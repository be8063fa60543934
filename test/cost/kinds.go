package main

import (
	"path/filepath"
	"slices"
	"strings"
)

// The kinds of processes, in the order of the table.
const (
	compiles   = "compile"
	links      = "link"
	goCommands = "go command"
	cTools     = "C compiler"
	apiServers = "API servers"
	etcds      = "etcd"
	managers   = "controller managers"
	binaries   = "binaries of this repository"
	testCode   = "test code"
	others     = "others"
)

// kindOf returns the kind of a process. binaryNames are the names of the repository's binaries.
func kindOf(command, binaryNames []string) string {
	if len(command) == 0 {
		return others
	}
	name := filepath.Base(command[0])
	switch name {
	case "compile", "asm", "vet":
		return compiles
	case "link":
		return links
	case "go", "buildid", "pack", "covdata", "cover":
		return goCommands
	case "cgo", "gcc", "cc1", "as", "collect2", "ld", "cc":
		return cTools
	case "kube-apiserver":
		return apiServers
	case "etcd":
		return etcds
	case "kube-controller-manager", "kube-scheduler", "kwok":
		return managers
	}
	if strings.HasSuffix(name, ".test") {
		return testCode
	}
	if slices.Contains(binaryNames, name) {
		return binaries
	}
	return others
}

// packageOf returns the package that a process of one of these kinds works for; "" if its command line does not contain the package. A test
// runs in the folder of its package; module is the folder of the module.
func packageOf(kind string, p process, module string) string {
	switch kind {
	case testCode:
		if relative, err := filepath.Rel(module, p.folder); err == nil && filepath.IsLocal(relative) {
			return relative
		}
		return strings.TrimSuffix(filepath.Base(p.command[0]), ".test")
	case links:
		if i := slices.Index(p.command, "-o"); i >= 0 && i+1 < len(p.command) {
			return filepath.Base(p.command[i+1])
		}
	}
	return ""
}
