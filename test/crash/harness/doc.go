// Package harness cuts a managedresource-controller off from its API servers at an exact request, lets a new controller take over, and
// compares the result with an undisturbed run. Only the tests of test/crash may use it.
//
// A Scenario defines the first objects and the changes after that. Undisturbed runs create its Reference. A point is a run with one planned
// cut, before or after a certain request. The harness knows nothing about the right result of a scenario: a run must have the same result
// as the undisturbed run, and keep the objects that the undisturbed run keeps.
package harness
