package machine

import (
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

// Required connects to the cluster of KUBECONFIG and finds its machine. Use it in BeforeSuite of suites that need all binaries and the
// local node. Without them it skips the suite, with a message that contains notDone.
func Required(ctx SpecContext, notDone string) (*cluster.Cluster, *Machine) {
	GinkgoHelper()
	c, err := cluster.Connect()
	Expect(err).NotTo(HaveOccurred())
	for _, binary := range cluster.Binaries() {
		if c.Lacks(binary) {
			Skip("SKIPPED: " + notDone + ": it needs all binaries, and this run leaves out " + binary)
		}
	}
	m, err := Find(ctx, c.Kubeconfig)
	if errors.Is(err, ErrElsewhere) {
		Skip("SKIPPED: " + notDone + ": " + err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	return c, m
}
