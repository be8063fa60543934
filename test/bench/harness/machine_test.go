package harness

import (
	"os"
	"testing"

	. "github.com/onsi/gomega"
)

func TestOwnProcessCanBeMeasured(t *testing.T) {
	g := NewWithT(t)
	now, peak, err := Memory(os.Getpid())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(now).To(BeNumerically(">", 1<<20))
	g.Expect(peak).To(BeNumerically(">=", now))
	_, err = ProcessorTime(os.Getpid())
	g.Expect(err).NotTo(HaveOccurred())
}
