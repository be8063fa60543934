// Package scenarios contains the scenarios of the crash tests: each is a change of ManagedResources, small enough that a process can be cut
// off at every single request. Only the tests of test/crash may use it.
//
// A new scenario is an entry in one of the lists of All, or a function that an entry calls. Declare only Stays, Goes and Kept about the
// result; the undisturbed run defines the rest. Each run must have the same result and send the same number of requests: avoid work that is
// retried until another event happens.
package scenarios

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/crash/harness"
)

// All returns every scenario.
func All() []harness.Scenario {
	return slices.Concat(firstApplies, updates, replacements, handOvers, deletions, ignored, releases, drifts, collections)
}

// NewSuite returns a suite of the scenarios whose names contain one of the texts.
func NewSuite(t *testing.T, texts ...string) *harness.Suite {
	t.Helper()
	suite := &harness.Suite{Workers: harness.Number(t, "CRASH_WORKERS", 3), Out: t.Output()}
	var one, two *managedresourcetest.Env
	for _, each := range All() {
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(each.Name, text) }) {
			continue
		}
		env := &one
		if each.TwoClusters {
			env = &two
		}
		if *env == nil {
			*env = managedresourcetest.New(t, managedresourcetest.Options{Stopped: true, TwoClusters: each.TwoClusters})
		}
		if each.Prepare != nil {
			each.Prepare(*env)
		}
		suite.Add(each, *env)
	}
	NewWithT(t).Expect(suite.Size()).NotTo(BeZero(), "scenarios like %q", texts)
	return suite
}
