//go:build e2e

package faults_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
	"github.com/espalier-dev/espalier/test/e2e/faults/load"
	"github.com/espalier-dev/espalier/test/e2e/faults/machine"
)

// The specs share these variables, which are set before the first spec and never changed afterwards.
var (
	c      *cluster.Cluster
	m      *machine.Machine
	work   *load.Load
	result *results
)

func TestSuite(t *testing.T) { cluster.Run(t, "faults") }

var _ = BeforeSuite(func(ctx SpecContext) {
	c, m = machine.Required(ctx, "no fault is measured")
	Expect(c.Ensure(ctx, cluster.Binaries()...)).To(Succeed())
	result = &results{}
	var err error
	work, err = load.New(ctx, c)
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(10*time.Minute))

var _ = AfterSuite(func(ctx SpecContext) {
	if result != nil {
		AddReportEntry("what faults cost", result.table())
	}
	if work != nil {
		Expect(work.Close(ctx)).To(Succeed())
	}
}, NodeTimeout(10*time.Minute))
