// Package architecture holds the tests that hold the tree to its rules: which folders exist, who may import whom, which
// files stay pure, what generated files say of themselves. It holds no code that runs in a process.
//
// Whoever wants a new package under internal/ or a new binary says so in folders_test.go; that diff is the review.
package architecture
