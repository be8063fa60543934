package criticalcomponents_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/espalier-dev/espalier/test/binary"
)

// change changes a Node with the rights of an administrator.
func (s *scene) change(name string, change func(*corev1.Node)) *corev1.Node {
	s.T.Helper()
	object := &corev1.Node{}
	s.Expect(s.Target.Get(s.Ctx, client.ObjectKey{Name: name}, object)).To(Succeed())
	change(object)
	s.Expect(s.Target.Update(s.Ctx, object)).To(Succeed())
	return object
}

// The labels and taints of a Node determine which DaemonSets belong on it. A change of them between the decision and the patch makes the
// patch fail.
func TestANodeThatChangesMeanwhileIsLookedAtAnew(t *testing.T) {
	inZoneB := func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "b"} }
	toZoneB := func(n *corev1.Node) { n.Labels = map[string]string{"zone": "b"} }
	for name, tc := range map[string]struct {
		daemonSet         func(*appsv1.DaemonSet)
		before, meanwhile func(*corev1.Node)
	}{
		"a label changes": {
			daemonSet: inZoneB,
			meanwhile: toZoneB,
		},
		"the first label comes": {
			daemonSet: inZoneB,
			before:    func(n *corev1.Node) { n.Labels = nil },
			meanwhile: toZoneB,
		},
		"the value of a taint changes": {
			daemonSet: func(d *appsv1.DaemonSet) {
				d.Spec.Template.Spec.Tolerations = []corev1.Toleration{
					{Key: "example.com/a", Operator: corev1.TolerationOpEqual, Value: "x"},
					{Key: waitingTaint, Operator: corev1.TolerationOpExists},
					{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists},
				}
			},
			meanwhile: func(n *corev1.Node) { n.Spec.Taints[0].Value = "x" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, binary.Options{Stopped: true})
			s.daemonSet(s.Namespace, "critical", tc.daemonSet)
			n := s.node("n", "example.com/a=y:NoSchedule", waitingTaint+":NoSchedule")
			if tc.before != nil {
				s.change(n, tc.before)
			}
			s.beforePatch(n, func() { s.change(n, tc.meanwhile) })
			s.Start()
			s.expectHeld(n,
				"Warning UnscheduledNodeCriticalDaemonSets: Node-critical DaemonSets found that were not scheduled to Node yet: "+s.Namespace+
					"/critical")
		})
	}
}

// The API server must accept the patch of a Node without labels too.
func TestANodeWithoutLabelsIsFreed(t *testing.T) {
	s := newScene(t, binary.Options{Stopped: true})
	n := s.node("n")
	s.change(n, func(n *corev1.Node) { n.Labels = nil })
	s.Start()
	s.expectFreed(n)
}

// After the removal, the cache may still receive a version of the Node between the decision and the patch.
func TestAVersionFromBeforeTheRemovalIsNotPatchedAgain(t *testing.T) {
	s := newScene(t, binary.Options{Stopped: true})
	n := s.node("n")
	var between *corev1.Node
	patches := 0
	r, recorded, _ := s.direct(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if node, ok := object.(*corev1.Node); ok && between != nil {
				between.DeepCopyInto(node)
				return nil
			}
			return c.Get(ctx, key, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			patches++
			if between == nil {
				between = s.change(n, func(n *corev1.Node) { n.Annotations = map[string]string{"reported": "yes"} })
			}
			return c.Patch(ctx, object, patch, options...)
		},
	})
	s.Expect(s.reconcile(r, n)).To(Equal(ctrl.Result{}))
	s.Expect(s.reconcile(r, n)).To(Equal(ctrl.Result{}))
	s.Expect(patches).To(Equal(1))
	s.Expect(recorded.events).To(Equal([]string{"Normal NodeCriticalComponentsReady"}))
}
