package cluster

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/deployable"
)

// Deployed connects to the cluster of KUBECONFIG and deploys binaries there, as Ensure does. It is for BeforeSuite.
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

// Process is what the suite of a binary knows of its Pods.
type Process struct {
	// Binary is its name.
	Binary string
	// Lease is what its Pods compete for; empty if all of them work.
	Lease string
	// Metric is how the names of its own metrics begin; empty if they need something done before they are there, which the
	// suite does itself.
	Metric string
}

// Specs adds the specs that the Pods of every binary must pass to the container that calls it. The cluster is looked up when
// they run.
func (p Process) Specs(c **Cluster) {
	if p.Lease != "" {
		It("are two, of which one works", Label("smoke"), func(ctx SpecContext) {
			// Another spec may have ended one of them just now: that one does not count, and the lease takes its time.
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
			// Each of the requests reaches one of the replicas; that which works has something to tell.
			Eventually(ctx, (*c).Metrics).WithArguments(p.Binary).Should(ContainSubstring("\n" + p.Metric))
		})
	}
}
