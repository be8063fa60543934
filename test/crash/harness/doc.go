// Package harness cuts a managedresource-controller off from its API servers at an exact request, lets a new one take
// over, and compares what comes out with a run that nobody disturbed. It belongs to the tests of test/crash only.
//
// A Scenario says what exists at first and what happens then. Its Reference is made by undisturbed runs. A Point is one
// run with a Cut. Nothing here knows what a scenario is about: what must come out is what comes out undisturbed, and what
// must stay is what stays undisturbed.
package harness
