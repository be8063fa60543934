// Package architecture contains the tests for the rules of the source tree: which folders exist, which package may import which, which
// files only compute, and which header generated files have. It contains no code that runs in a process.
//
// To add a shared package under internal/, add it to folders_test.go, so that a review sees it. Package deployable lists the binaries.
package architecture
