// Package scenarios holds what the crash tests run: each scenario is something that happens to ManagedResources, small
// enough that a process can be cut off at every single request. It belongs to the tests of test/crash only.
//
// A new one is a function that returns a harness.Scenario, and an entry in All. How to write one: say nothing about how
// it has to end, but with Stays, Goes and Kept; the undisturbed run says the rest. It must come to the same each time,
// in the same number of requests: avoid what is tried again and again until something else happens.
package scenarios

import "github.com/espalier-dev/espalier/test/crash/harness"

// All returns every scenario.
func All() []harness.Scenario {
	return []harness.Scenario{
		firstApply("first apply", false),
		firstApply("first apply, two clusters", true),
		definition(),
		namespace(),
		update("update that prunes", false),
		update("update that prunes, two clusters", true),
		settings(),
		secretExchanged(),
		severalSets(),
		updateTwice(),
		updateTakenBack(),
		deletedMeanwhile(),
		broken(),
		equivalentKind(),
		formerGroup(),
		immutable(),
		invalid(),
		handOver("class hand-over, the giver is cut off", false, 0),
		handOver("class hand-over, the taker is cut off", false, 1),
		handOver("class hand-over, two clusters", true, 0),
		handOverKept(),
		deletion("deletion", false),
		deletion("deletion, two clusters", true),
		claims(),
		heldDeletion(),
		heldPruning(),
		finalizedDeletion(),
		keptObjects(),
		ignoreOn(),
		ignoreOff(),
		released(),
		objectHandedOver("an object goes from set to set by mode Ignore", true),
		objectHandedOver("an object goes from set to set", false),
		drift(),
		driftWhileDown(),
		garbage(),
	}
}
