package criticalcomponents_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/test/binary"
)

// withoutPolling sets a long pause, so that the tests fail unless a watch triggers the reconciliation.
func withoutPolling(cfg *config.ResourceManagerConfiguration) {
	cfg.Controllers.Node.Backoff = &metav1.Duration{Duration: time.Hour}
}

func TestEveryKindOfChangeIsNoticedAtOnce(t *testing.T) {
	for name, change := range map[string]func(s *scene, daemonSet *appsv1.DaemonSet, n string){
		"a DaemonSet is deleted": func(s *scene, daemonSet *appsv1.DaemonSet, _ string) {
			s.Expect(s.Target.Delete(s.Ctx, daemonSet)).To(Succeed())
		},
		"a DaemonSet loses its label": func(s *scene, daemonSet *appsv1.DaemonSet, _ string) {
			before := client.MergeFrom(daemonSet.DeepCopy())
			daemonSet.Labels = nil
			s.Expect(s.Target.Patch(s.Ctx, daemonSet, before)).To(Succeed())
		},
		"a DaemonSet turns to other Nodes": func(s *scene, daemonSet *appsv1.DaemonSet, _ string) {
			before := client.MergeFrom(daemonSet.DeepCopy())
			daemonSet.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "b"}
			s.Expect(s.Target.Patch(s.Ctx, daemonSet, before)).To(Succeed())
		},
		"the Node changes its labels": func(s *scene, daemonSet *appsv1.DaemonSet, n string) {
			before := client.MergeFrom(daemonSet.DeepCopy())
			daemonSet.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "a"}
			s.Expect(s.Target.Patch(s.Ctx, daemonSet, before)).To(Succeed())
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"zone":"b"}}}`))
			s.Expect(s.Target.Patch(s.Ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n}}, patch)).To(Succeed())
		},
		"its Pod comes ready": func(s *scene, daemonSet *appsv1.DaemonSet, n string) {
			s.ready(s.pod("late", n, ownedBy(daemonSet)), "True")
		},
		"its Pod is bound": func(s *scene, daemonSet *appsv1.DaemonSet, n string) {
			pod := s.pod("late", "", ownedBy(daemonSet))
			s.ready(pod, "True")
			binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: n}}
			s.Expect(s.Target.SubResource("binding").Create(s.Ctx, pod, binding)).To(Succeed())
		},
		"its driver is registered": func(s *scene, daemonSet *appsv1.DaemonSet, n string) {
			s.ready(s.pod("late", n, ownedBy(daemonSet), annotated(waitForCSI+"x", "foo.example.com")), "True")
			s.Eventually(func() float64 { return s.metric("espalier_node_held_back", "csi_drivers_unregistered") }).WithTimeout(binary.Patience).
				Should(Equal(1.0))
			s.csiNode(n, "foo.example.com")
		},
		"a driver is no longer waited for": func(s *scene, daemonSet *appsv1.DaemonSet, n string) {
			pod := s.pod("late", n, ownedBy(daemonSet), annotated(waitForCSI+"x", "foo.example.com"))
			s.ready(pod, "True")
			s.Eventually(func() float64 { return s.metric("espalier_node_held_back", "csi_drivers_unregistered") }).WithTimeout(binary.Patience).
				Should(Equal(1.0))
			before := client.MergeFrom(pod.DeepCopy())
			pod.Annotations = nil
			s.Expect(s.Target.Patch(s.Ctx, pod, before)).To(Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, binary.Options{Configure: withoutPolling})
			daemonSet := s.daemonSet(s.Namespace, "critical")
			n := s.node("n")
			s.Eventually(func() float64 { return s.metric("espalier_node_held_back", "daemonsets_unscheduled") }).WithTimeout(binary.Patience).
				Should(Equal(1.0))
			change(s, daemonSet, n)
			s.expectFreed(n)
		})
	}
}

// Frequent changes in the status of DaemonSets, Pods and Nodes trigger no reconciliation.
func TestWhatDoesNotMatterCostsNothing(t *testing.T) {
	s := newScene(t, binary.Options{Configure: withoutPolling, Stopped: true})
	daemonSet := s.daemonSet(s.Namespace, "critical")
	pod := s.pod("critical-1", s.Namespace+"-n", ownedBy(daemonSet))
	n := s.node("n")
	s.Start() // the first check sees all Nodes, and further Events about them follow only after an hour
	s.expectHeld(n, s.unready("critical-1"))
	s.Requests.Reset()
	for _, object := range []client.Object{daemonSet, pod, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n}}} {
		patch := client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"example.com/a":"b"}},"status":{"observedGeneration":7}}`))
		s.Expect(s.Target.Patch(s.Ctx, object, patch)).To(Succeed())
		s.Expect(s.Target.Status().Patch(s.Ctx, object, patch)).To(Succeed())
	}
	s.ready(pod, "True")
	s.expectFreed(n)
	s.Eventually(func() float64 { return s.metric("espalier_node_taints_removed_total", "") }).WithTimeout(binary.Patience).Should(Equal(1.0))
	s.Expect(slices.Sorted(slices.Values(s.Requests.Seen()))).To(Equal([]string{
		"GET /api/v1/pods", "GET /apis/apps/v1/daemonsets", "PATCH /api/v1/nodes/" + n,
	}), "what a Node costs: it is confirmed, and patched")
}

func TestARestartFindsTheNodesThatWait(t *testing.T) {
	s := newScene(t, binary.Options{Configure: withoutPolling})
	pod := s.pod("critical", s.Namespace+"-n")
	n := s.node("n")
	s.expectHeld(n, s.unready("critical"))
	s.Restart(func() { s.ready(pod, "True") })
	s.expectFreed(n)
	s.Eventually(s.metric).WithArguments("espalier_node_taint_seconds", "").WithTimeout(binary.Patience).Should(Equal(1.0))
}

// A second reconciliation of a Node without the taint writes nothing.
func TestAFreeNodeIsLeftAlone(t *testing.T) {
	s := newScene(t, binary.Options{})
	n := s.node("n")
	s.expectFreed(n)
	s.Restart(s.Requests.Reset)
	s.expectFreed(s.node("fence"))
	s.Expect(s.Requests.Writes()).NotTo(ContainElement(HaveSuffix("/nodes/" + n)))
}
