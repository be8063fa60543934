package cluster

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/deployable"
)

// Deployed connects to the cluster of KUBECONFIG and deploys binaries, like Ensure. Use it in BeforeSuite.
func Deployed(ctx SpecContext, binaries ...string) *Cluster {
	GinkgoHelper()
	c, err := Connect()
	Expect(err).NotTo(HaveOccurred())
	Expect(c.Ensure(ctx, binaries...)).To(Succeed())
	return c
}

// Binaries returns the names of all binaries that can be deployed.
func Binaries() []string {
	all := deployable.All()
	names := make([]string, 0, len(all))
	for _, binary := range all {
		names = append(names, binary.Name)
	}
	return names
}

// Process describes the Pods of a binary for the specs that every binary has.
type Process struct {
	// Binary is the name of the binary.
	Binary string
	// Lease is the name of the lease of its Pods; empty if all of them are active.
	Lease string
	// Metric is the prefix of the names of its own metrics; empty if these appear only after some work: then the suite itself checks them.
	Metric string
}

// Specs adds the specs for the Pods of a binary to the container that calls it. It reads the variable c only when the specs run.
func (p Process) Specs(c **Cluster) {
	if p.Lease != "" {
		It("are two, of which one works", Label("smoke"), func(ctx SpecContext) {
			// Another spec may just have deleted one of the Pods. That Pod does not count, and the new leader needs some time.
			Eventually(ctx, func(g Gomega, ctx context.Context) {
				pods, err := (*c).Pods(ctx, p.Binary)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(settled(pods, 2)).To(Succeed())
				g.Expect(pods).To(HaveLen(2))
				g.Expect((*c).Leader(ctx, p.Binary, p.Lease)).To(BeElementOf(pods[0].Name, pods[1].Name))
			}).Should(Succeed())
		})
	}

	It("satisfy the restricted standard, which their namespace enforces", Label("smoke"), func(ctx SpecContext) {
		Expect((*c).Restricted(ctx, p.Binary)).To(Succeed())
	})

	if p.Metric != "" {
		It("serve metrics at their Service", Label("smoke"), func(ctx SpecContext) {
			// Each request reaches one of the replicas; only the active one has these metrics.
			Eventually(ctx, (*c).Metrics).WithArguments(p.Binary).Should(ContainSubstring("\n" + p.Metric))
		})
	}
}
