package criticalcomponents_test

import (
	"strconv"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/binary"
)

// Wherever the process is interrupted, the next process removes the taint. No process removes it before the Node is ready.
func TestCrashPoints(t *testing.T) {
	s := newScene(t, binary.Options{Stopped: true})
	daemonSet := s.daemonSet(s.Namespace, "critical")
	runs := 0
	tried := binary.EveryCut(t, 1, func(t *testing.T, at binary.Cut) bool {
		t.Helper()
		runs++
		name := "n" + strconv.Itoa(runs)
		s.Start()
		pod := s.pod(name, s.Namespace+"-"+name, ownedBy(daemonSet), annotated(waitForCSI+"x", "foo.example.com"))
		s.csiNode(s.Namespace+"-"+name, "foo.example.com")
		n := s.node(name, "example.com/a:NoSchedule", waitingTaint+":NoSchedule", "example.com/b:NoExecute")
		s.expectHeld(n, s.unready(name))
		s.Requests.CutOff(at)
		s.ready(pod, "True")
		s.Eventually(func() bool { return s.Requests.IsCutOff() || !s.waits(n) }).WithTimeout(binary.Patience).Should(BeTrue())
		s.Stop()
		happened := s.Requests.Connect()
		s.Start()
		s.expectFreed(n)
		s.Stop()
		s.Expect(s.taints(n)).To(Equal([]string{"example.com/a:NoSchedule", "example.com/b:NoExecute", notReady}))
		return happened
	})
	s.Expect(tried).To(Equal(8), "two lists, the CSINode and the patch, each before and after")
}
