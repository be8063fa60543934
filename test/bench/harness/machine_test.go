package harness

import (
	"os"
	"testing"

	. "github.com/onsi/gomega"
)

func TestOwnProcessCanBeMeasured(t *testing.T) {
	g := NewWithT(t)
	usage, err := UsageOf(os.Getpid())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(usage.Resident).To(BeNumerically(">", 1<<20))
	g.Expect(usage.Peak).To(BeNumerically(">=", usage.Resident))
}
