package criticalcomponents_test

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/test/binary"
)

func (s *scene) unready(pod string) string {
	return "Warning UnreadyNodeCriticalPods: Unready node-critical Pods found on Node: " + s.Namespace + "/" + pod
}

func TestTaintStaysForAPodWhoseDaemonSetHasNoLabel(t *testing.T) {
	s := newScene(t, binary.Options{})
	inside := s.daemonSet(s.Namespace, "inside", func(d *appsv1.DaemonSet) { d.Labels = nil })
	pod := s.pod("inside-1", s.Namespace+"-n", ownedBy(inside))
	n := s.node("n")
	s.expectHeld(n, s.unready("inside-1"))
	s.ready(pod, "True")
	s.expectFreed(n)
}

func TestOtherValuesOfTheLabelAreIgnored(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.daemonSet(s.Namespace, "critical", func(d *appsv1.DaemonSet) { d.Labels[critical], d.Spec.Template.Labels[critical] = "false", "false" })
	s.pod("critical", s.Namespace+"-n", func(p *corev1.Pod) { p.Labels[critical] = "True" })
	s.expectFreed(s.node("n"))
}

func TestTaintStaysForAPodThatHasEnded(t *testing.T) {
	s := newScene(t, binary.Options{})
	pod := s.pod("job", s.Namespace+"-n")
	before := client.MergeFrom(pod.DeepCopy())
	pod.Status.Phase = corev1.PodSucceeded
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: "False", Reason: "PodCompleted"}}
	s.Expect(s.Target.Status().Patch(s.Ctx, pod, before)).To(Succeed())
	n := s.node("n")
	s.expectHeld(n, s.unready("job"))
	s.Expect(s.Target.Delete(s.Ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
	s.expectFreed(n)
}

func TestTaintIsRemovedWhateverItsEffect(t *testing.T) {
	s := newScene(t, binary.Options{})
	n := s.node("n", waitingTaint+"=x:PreferNoSchedule")
	s.expectFreed(n)
	s.Expect(s.taints(n)).To(Equal([]string{notReady}))
}

// Later versions of Gardener also set the taint on existing Nodes.
func TestTaintThatIsAddedAgainIsRemovedAgain(t *testing.T) {
	s := newScene(t, binary.Options{})
	n := s.node("n")
	s.expectFreed(n)
	pod := s.pod("critical", n)
	s.ready(pod, "False")
	object := &corev1.Node{}
	s.Expect(s.Target.Get(s.Ctx, client.ObjectKey{Name: n}, object)).To(Succeed())
	before := client.MergeFrom(object.DeepCopy())
	object.Spec.Taints = append(object.Spec.Taints, taintsOf(waitingTaint+":NoSchedule")...)
	s.Expect(s.Target.Patch(s.Ctx, object, before)).To(Succeed())
	s.expectHeld(n, s.unready("critical"))
	s.ready(pod, "True")
	s.expectFreed(n)
	s.Eventually(func() float64 { return s.metric("espalier_node_taints_removed_total", "") }).WithTimeout(binary.Patience).Should(Equal(2.0))
}

func TestDeletedNodeIsRemovedFromTheMetric(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.daemonSet(s.Namespace, "critical")
	gone, stays := s.node("gone"), s.node("stays")
	held := func() float64 { return s.metric("espalier_node_held_back", "daemonsets_unscheduled") }
	s.Eventually(held).WithTimeout(binary.Patience).Should(Equal(2.0))
	s.Expect(s.Target.Delete(s.Ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: gone}})).To(Succeed())
	s.Eventually(held).WithTimeout(binary.Patience).Should(Equal(1.0))
	s.Expect(s.waits(stays)).To(BeTrue())
}

func TestTaintStaysWhileTheCSINodeHasNoSuchDriver(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.ready(s.pod("csi", s.Namespace+"-n", annotated(waitForCSI+"driver", "foo.example.com")), "True")
	s.csiNode(s.Namespace+"-n", "other.example.com")
	n := s.node("n")
	s.expectHeld(n, "Warning UnreadyRequiredCSIDrivers: Unready required CSI drivers for Node: [foo.example.com]")
}

func TestOtherNamespacesAreIgnored(t *testing.T) {
	s := newScene(t, binary.Options{Stopped: true})
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace + "-other"}}
	s.Expect(s.Target.Create(s.Ctx, other)).To(Succeed())
	s.account(other.Name)
	s.daemonSet(other.Name, "unseen")
	s.pod("unseen", s.Namespace+"-n", func(p *corev1.Pod) { p.Namespace = other.Name })
	seen := s.pod("seen", s.Namespace+"-n")
	s.Config.TargetClientConnection.Namespaces = []string{s.Namespace}
	s.Start()
	n := s.node("n")
	s.expectHeld(n, s.unready("seen"))
	s.ready(seen, "True")
	s.expectFreed(n)
	s.Expect(s.Requests.Seen()).To(ContainElements(
		"GET /api/v1/namespaces/"+s.Namespace+"/pods", "GET /apis/apps/v1/namespaces/"+s.Namespace+"/daemonsets"),
		"live readings keep to them, too")
	s.Expect(s.Requests.Seen()).NotTo(ContainElement("GET /api/v1/pods"))
}

// Gardener does not cover this case: a Node joins before its DaemonSets are created.
func TestTaintStaysUntilRequiredDaemonSetsExist(t *testing.T) {
	s := newScene(t, binary.Options{Stopped: true})
	s.Config.Espalier = config.Espalier{Node: config.EspalierNode{RequiredDaemonSets: []string{s.Namespace + "/network"}}}
	s.Start()
	n := s.node("n")
	s.expectHeld(n,
		"Warning MissingNodeCriticalDaemonSets: Required node-critical DaemonSets do not exist, or lack the label on their metadata "+
			"or template: "+s.Namespace+"/network")
	s.Eventually(s.metric).WithArguments("espalier_node_held_back", "daemonsets_missing").WithTimeout(binary.Patience).Should(Equal(1.0))
	network := s.daemonSet(s.Namespace, "network")
	s.ready(s.pod("network-1", n, ownedBy(network)), "True")
	s.expectFreed(n)
}
