package main

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestParseCPUTime(t *testing.T) {
	g := NewWithT(t)
	g.Expect(parseCPUTime("12 (a (very) odd name) S 1 12 12 0 -1 4194560 5 6 7 8 123 45 9 9 20 0 8 0 99")).To(Equal(1680 * time.Millisecond))
	_, err := parseCPUTime("nonsense")
	g.Expect(err).To(MatchError(ContainSubstring("unknown format")))
}

func TestKibibytes(t *testing.T) {
	g := NewWithT(t)
	g.Expect(kibibytes("VmPeak:\t    9 kB\nVmRSS:\t   1234 kB\n", "VmRSS")).To(BeEquivalentTo(1234))
	_, err := kibibytes("VmPeak:\t    9 kB\n", "VmRSS")
	g.Expect(err).To(MatchError("there is no VmRSS"))
}

func TestOwnProcessCanBeMeasured(t *testing.T) {
	g := NewWithT(t)
	g.Expect(memoryOf(os.Getpid(), "VmRSS")).To(BeNumerically(">", 1<<20))
	_, err := cpuTime(os.Getpid())
	g.Expect(err).NotTo(HaveOccurred())
}
