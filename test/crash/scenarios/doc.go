// Package scenarios contains the scenarios of the crash tests: each is a change of ManagedResources, small enough that a process can be cut
// off at every single request. Only the tests of test/crash may use it.
//
// A new scenario is a function that returns a harness.Scenario, and an entry in All. Declare only Stays, Goes and Kept about the result;
// the undisturbed run defines the rest. Each run must have the same result and send the same number of requests: avoid work that is retried
// until another event happens.
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
