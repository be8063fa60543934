// Package harness cuts a managedresource-controller off from its API servers at an exact request, lets a new controller take over, and
// compares the result with an undisturbed run. Only the tests of test/crash may use it.
//
// A Scenario defines the objects at first and the changes after that. Undisturbed runs create its Reference. A Point is one run
// with a Cut. The harness has no knowledge about a scenario: the result must equal the undisturbed result, and objects must be kept
// that are kept in the undisturbed run.
package harness
