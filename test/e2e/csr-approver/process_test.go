//go:build e2e

package csrapprover_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

var _ = Describe("its own Pods", func() {
	cluster.Process{Binary: binary, Lease: lease}.Specs(&c)

	It("serve metrics at their Service", Label("smoke"), func(ctx SpecContext) {
		// Each request reaches one of the replicas; only the active one has these metrics.
		sent, _ := send(ctx, fromKubelet(someNode(ctx)))
		Eventually(ctx, answered).WithArguments(sent.Name).Should(Equal(approval()))
		Eventually(ctx, c.Metrics).WithArguments(binary).Should(ContainSubstring(
			"\nespalier_csr_decisions_total{decision=\"approved\",reason=\"all-checks-passed\"} "))
	})
})
