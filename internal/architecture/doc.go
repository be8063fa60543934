// Package architecture contains the tests for the rules of the tree: which folders exist, which package may import which, which files stay
// pure, and which header generated files have. It contains no code that runs in a process.
//
// To add a shared package under internal/, add it to folders_test.go; that diff is reviewed. Package deployable lists the binaries.
package architecture
