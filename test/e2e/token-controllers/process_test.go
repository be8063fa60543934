//go:build e2e

package tokencontrollers_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

var _ = Describe("the Pods of token-controllers", func() {
	const lease = "gardener-resource-manager-token-controllers"

	cluster.Process{Binary: binary, Lease: lease, Metric: "espalier_token_"}.Specs(&c)

	It("are replaced when they are killed, and renew nothing for that", func(ctx SpecContext) {
		s := newScene(ctx)
		s.request(ctx, "before", "before")
		Eventually(s.token).WithContext(ctx).WithArguments("before").ShouldNot(BeEmpty())
		before, err := s.token(ctx, "before")
		Expect(err).NotTo(HaveOccurred())

		pods, err := c.Pods(ctx, binary)
		Expect(err).NotTo(HaveOccurred())
		for _, pod := range pods {
			Expect(client.IgnoreNotFound(c.Client.Delete(ctx, &pod, client.GracePeriodSeconds(0)))).To(Succeed())
		}
		s.request(ctx, "meanwhile", "meanwhile")
		// The killed Pods are gone, so the holder is a new Pod.
		Eventually(c.Leader).WithContext(ctx).WithArguments(binary, lease).WithTimeout(2 * cluster.Patience).ShouldNot(BeEmpty())
		Eventually(s.token).WithContext(ctx).WithArguments("meanwhile").ShouldNot(BeEmpty())
		// The new leader processes this Secret after the Secrets that exist at its start.
		s.request(ctx, "after", "after")
		Eventually(s.token).WithContext(ctx).WithArguments("after").ShouldNot(BeEmpty())
		Expect(c.RolledOut(ctx, binary)).To(Succeed())
		Expect(s.has(ctx, "before", before)).To(BeTrue(), "the token must be the same")
	})
})
