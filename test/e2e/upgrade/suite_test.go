//go:build e2e

package upgrade_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
	"github.com/espalier-dev/espalier/test/e2e/faults/machine"
)

// Shared by all specs. Set before the first spec, and never changed afterwards.
var (
	c *cluster.Cluster
	m *machine.Machine
)

func TestSuite(t *testing.T) { cluster.Run(t, "upgrade") }

// Only this suite starts without Ensure: its spec starts with nothing deployed, then deploys the former state, and leaves the present one.
var _ = BeforeSuite(func(ctx SpecContext) { c, m = machine.Required(ctx, "no upgrade is tried") }, NodeTimeout(5*time.Minute))
