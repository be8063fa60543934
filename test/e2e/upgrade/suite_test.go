//go:build e2e

package upgrade_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
	"github.com/espalier-dev/espalier/test/e2e/faults/machine"
)

// The specs share these variables, which are set before the first spec and never changed afterwards.
var (
	c *cluster.Cluster
	m *machine.Machine
)

func TestSuite(t *testing.T) { cluster.Run(t, "upgrade") }

// Unlike other suites, this one does not call Ensure first: its spec begins with nothing deployed, deploys the earlier state, and leaves
// the present one.
var _ = BeforeSuite(func(ctx SpecContext) { c, m = machine.Required(ctx, "no upgrade is tried") }, NodeTimeout(5*time.Minute))
