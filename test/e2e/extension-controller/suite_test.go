//go:build e2e

// Package extensioncontroller_test tests extension-controller in a real cluster, which is both the cluster of the Seed and the garden: how
// it gets and renews its certificate, and that it does not run beside a gardenlet.
package extensioncontroller_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

const binary = "extension-controller"

// c is the cluster under test. The suite sets it before the specs.
var c *cluster.Cluster

func TestE2E(t *testing.T) { cluster.Run(t, binary) }

var _ = BeforeSuite(func(ctx SpecContext) { c = cluster.Deployed(ctx, binary) }, NodeTimeout(5*time.Minute))
