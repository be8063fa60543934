//go:build e2e

// Package managedresourcecontroller_test tests managedresource-controller in a real cluster: how it reconciles ManagedResources, and how
// its own Pods behave.
package managedresourcecontroller_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

const binary = "managedresource-controller"

// c is the cluster under test. The suite sets it before the specs.
var c *cluster.Cluster

func TestE2E(t *testing.T) { cluster.Run(t, binary) }

var _ = BeforeSuite(func(ctx SpecContext) {
	c = cluster.Deployed(ctx, binary)
	if slow.MatchesLabelFilter(GinkgoLabelFilter()) {
		prepareGarbage(ctx)
	}
})
