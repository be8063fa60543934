package controller_test

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/espalier-dev/espalier/test/binary"
)

// Wherever the process is interrupted while it creates, replaces and deletes policies, the next process reaches the same state.
func TestCrashPointsEndInTheSameState(t *testing.T) {
	t.Parallel()
	binary.Servers(t)
	first := []string{
		"a/egress-to-t-tcp-1", "a/ingress-to-t-tcp-1", "a/ingress-to-t-tcp-1-from-b", "b/egress-to-a-t-tcp-1",
		"a/egress-to-u-tcp-1", "a/ingress-to-u-tcp-1",
	}
	last := []string{"a/egress-to-t-tcp-2", "a/ingress-to-t-tcp-2", "a/ingress-to-t-tcp-2-from-b", "b/egress-to-a-t-tcp-2"}
	cuts := binary.EveryCut(t, 5, func(t *testing.T, at binary.Cut) bool {
		t.Helper()
		s := newScene(t, setting{})
		s.namespace("b", map[string]string{"other": "namespace"})
		s.settled()
		s.Requests.CutOff(at)
		reaches := func(names []string) {
			s.T.Helper()
			want := slices.Sorted(slices.Values(names))
			s.Eventually(func() bool { return s.Requests.IsCutOff() || slices.Equal(s.names(s.Ctx), want) }).WithTimeout(binary.Patience).
				Should(BeTrue())
		}
		one := func(name string) func(*corev1.Service) {
			return func(service *corev1.Service) {
				service.Name, service.Spec.Ports = name, []corev1.ServicePort{{Port: 1}}
			}
		}
		replaced := s.service(map[string]string{selectors: selecting}, one("t"))
		deleted := s.service(nil, one("u"))
		reaches(first)
		s.change(replaced, func() { replaced.Spec.Ports[0].TargetPort = intstr.FromInt32(2) })
		s.Expect(s.Target.Delete(s.Ctx, deleted)).To(Succeed())
		reaches(last)
		happened := false
		s.Restart(func() { happened = s.Requests.Connect() })
		s.awaits(last)
		return happened
	})
	NewWithT(t).Expect(cuts).To(BeNumerically(">=", 6))
}
