package criticalcomponents_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/binary"
)

func TestNodeWithoutCriticalComponentsIsReadyAtOnce(t *testing.T) {
	s := newScene(t, binary.Options{})
	n := s.node("n")
	s.expectFreed(n)
	s.expectReadyEvent(n)
}

func TestUncriticalDaemonSetsAndPodsAreIgnored(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.daemonSet(s.Namespace, "usual", func(d *appsv1.DaemonSet) {
		d.Labels = nil
		delete(d.Spec.Template.Labels, critical)
	})
	n := s.Namespace + "-n"
	s.pod("usual", n, func(p *corev1.Pod) { p.Labels = nil })
	s.expectFreed(s.node("n"))
}

func TestTaintStaysWhileADaemonSetHasNoPod(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.daemonSet(s.Namespace, "critical")
	s.expectHeld(s.node("n"),
		"Warning UnscheduledNodeCriticalDaemonSets: Node-critical DaemonSets found that were not scheduled to Node yet: "+s.Namespace+"/critical")
}

func TestTaintIsRemovedWhenThePodOfADaemonSetIsReady(t *testing.T) {
	s := newScene(t, binary.Options{})
	daemonSet := s.daemonSet(s.Namespace, "critical")
	n := s.node("n")
	s.expectHeld(n,
		"Warning UnscheduledNodeCriticalDaemonSets: Node-critical DaemonSets found that were not scheduled to Node yet: "+s.Namespace+"/critical")
	pod := s.pod("critical-1", n, ownedBy(daemonSet))
	s.expectHeld(n, "Warning UnreadyNodeCriticalPods: Unready node-critical Pods found on Node: "+s.Namespace+"/critical-1")
	s.ready(pod, "True")
	s.expectFreed(n)
	s.expectReadyEvent(n)
}

func TestTaintStaysUntilABarePodIsReady(t *testing.T) {
	s := newScene(t, binary.Options{})
	pod := s.pod("bare", s.Namespace+"-n")
	n := s.node("n")
	held := "Warning UnreadyNodeCriticalPods: Unready node-critical Pods found on Node: " + s.Namespace + "/bare"
	s.expectHeld(n, held)
	s.ready(pod, "False")
	s.expectHeld(n, held)
	s.ready(pod, "True")
	s.expectFreed(n)
}

func TestTaintStaysUntilTheCSIDriverIsRegistered(t *testing.T) {
	s := newScene(t, binary.Options{})
	pod := s.pod("csi", s.Namespace+"-n", annotated(waitForCSI+"driver", "foo.driver.example.com"))
	s.ready(pod, "True")
	n := s.node("n")
	s.expectHeld(n, "Warning UnreadyRequiredCSIDrivers: Unready required CSI drivers for Node: [foo.driver.example.com]")
	s.csiNode(n, "foo.driver.example.com")
	s.expectFreed(n)
}

func TestDaemonSetForOtherNodesIsIgnored(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.daemonSet(s.Namespace, "elsewhere", func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "b"} })
	s.expectFreed(s.node("n"))
}

func TestDaemonSetWithoutTolerationOfTheTaintIsIgnored(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.daemonSet(s.Namespace, "intolerant", func(d *appsv1.DaemonSet) {
		d.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists}}
	})
	s.expectFreed(s.node("n"))
}

func TestDaemonSetNeedsTheLabelOnItselfAndItsPods(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.daemonSet(s.Namespace, "outside", func(d *appsv1.DaemonSet) { delete(d.Spec.Template.Labels, critical) })
	s.daemonSet(s.Namespace, "inside", func(d *appsv1.DaemonSet) { d.Labels = nil })
	s.expectFreed(s.node("n"))
}

func TestOtherTaintsKeepTheirOrder(t *testing.T) {
	s := newScene(t, binary.Options{})
	n := s.node("n", "example.com/before=1:NoSchedule", waitingTaint+":NoSchedule", "example.com/between:PreferNoSchedule",
		waitingTaint+"=again:NoExecute", "example.com/after=2:NoExecute")
	s.expectFreed(n)
	s.Expect(s.taints(n)).To(Equal([]string{
		"example.com/before=1:NoSchedule", "example.com/between:PreferNoSchedule", "example.com/after=2:NoExecute", notReady,
	}))
}

func TestNodesWithoutTheTaintAreNotChanged(t *testing.T) {
	s := newScene(t, binary.Options{})
	untouched := s.node("untouched", "example.com/other:NoSchedule")
	n := s.node("n")
	s.expectFreed(n)
	s.Eventually(s.Requests.Writes).WithTimeout(binary.Patience).Should(ContainElement("PATCH /api/v1/nodes/" + n))
	s.Expect(s.Requests.Writes()).NotTo(ContainElement(HaveSuffix("/" + untouched)))
	s.Expect(s.taints(untouched)).To(Equal([]string{"example.com/other:NoSchedule", notReady}))
}

func TestEventContainsAllDaemonSets(t *testing.T) {
	s := newScene(t, binary.Options{})
	for _, namespace := range []string{"kube-system", "default"} {
		err := s.Target.Create(s.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		s.Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
	}
	first := s.daemonSet("kube-system", "critical1")
	s.daemonSet("default", "critical2")
	n := s.node("n")
	s.expectHeld(n, "Warning UnscheduledNodeCriticalDaemonSets: Node-critical DaemonSets found that were not scheduled to Node yet: "+
		"default/critical2, kube-system/critical1")
	s.pod("critical1", n, ownedBy(first))
	s.expectHeld(n, "Warning UnscheduledNodeCriticalDaemonSets: Node-critical DaemonSets found that were not scheduled to Node yet: "+
		"default/critical2")
}

// This test repeats a unit test of the rule on a real API server.
func TestEventContainsEachDriverOnce(t *testing.T) {
	s := newScene(t, binary.Options{})
	on := s.Namespace + "-n"
	s.ready(s.pod("one", on, annotated(waitForCSI+"foo", "foo.example.com")), "True")
	s.ready(s.pod("two", on, annotated(waitForCSI+"foo", "foo.example.com", waitForCSI+"bar", "bar.example.com")), "True")
	n := s.node("n")
	s.expectHeld(n, "Warning UnreadyRequiredCSIDrivers: Unready required CSI drivers for Node: [bar.example.com foo.example.com]")
}

func TestNodesAreCheckedAgainWithoutAnyEvent(t *testing.T) {
	var looks atomic.Int64
	s := newScene(t, binary.Options{Stopped: true, Log: funcr.New(func(_, line string) {
		if strings.Contains(line, "Node keeps its taint") {
			looks.Add(1)
		}
	}, funcr.Options{Verbosity: 1})})
	s.daemonSet(s.Namespace, "critical")
	n := s.node("n")
	s.Start() // so that the DaemonSet is in the cache; otherwise the checks would be confirmed live
	s.expectHeld(n,
		"Warning UnscheduledNodeCriticalDaemonSets: Node-critical DaemonSets found that were not scheduled to Node yet: "+s.Namespace+"/critical")
	s.Requests.Reset()
	before := looks.Load()
	s.Eventually(looks.Load).WithTimeout(binary.Patience).Should(BeNumerically(">=", before+5))
	s.Expect(s.Requests.Seen()).To(BeEmpty(), "looking again costs no request")
}
