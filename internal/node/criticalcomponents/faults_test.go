package criticalcomponents_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/espalier-dev/espalier/internal/node/criticalcomponents"
	"github.com/espalier-dev/espalier/test/binary"
)

func TestBadInputAnAnnotationThatNamesNoDriver(t *testing.T) {
	s := newScene(t, binary.Options{})
	pod := s.pod("csi", s.Namespace+"-bad", annotated(waitForCSI+"driver", "foo.example.com,bar"))
	s.ready(pod, "True")
	bad, good := s.node("bad"), s.node("good")
	s.expectFreed(good)
	s.expectHeld(bad, "Warning UnreadyRequiredCSIDrivers: Unready required CSI drivers for Node: [foo.example.com,bar]")
	s.expectEvent("Pod", pod.Name, `Warning InvalidWaitForCSINodeAnnotation: Annotation "node.gardener.cloud/wait-for-csi-node-driver" `+
		`names no CSI driver: its value "foo.example.com,bar" cannot be one, as `+
		`only letters, digits, '-' and '.' may be in it, and it begins and ends with a letter or digit. Set it to the name that the driver `+
		`registers with in the CSINode, or remove it; until then Node "`+bad+`" keeps its taint`)
	before := client.MergeFrom(pod.DeepCopy())
	pod.Annotations[waitForCSI+"driver"] = "foo.example.com"
	s.Expect(s.Target.Patch(s.Ctx, pod, before)).To(Succeed())
	s.csiNode(bad, "foo.example.com")
	s.expectFreed(bad)
}

// Even with the longest values that the API server accepts in objects, it accepts the Events about them.
func TestBadInputAnAnnotationThatIsHuge(t *testing.T) {
	s := newScene(t, binary.Options{})
	pod := s.pod("csi", s.Namespace+"-n",
		annotated(waitForCSI+strings.Repeat("k", 63-len("wait-for-csi-node-")), strings.Repeat("v", 200_000)))
	s.ready(pod, "True")
	n := s.node("n")
	s.expectHeld(n, "Warning UnreadyRequiredCSIDrivers: Unready required CSI drivers for Node: ["+strings.Repeat("v", 125)+"…]")
	s.Eventually(func() []string { return s.Events(s.Target, "Pod", pod.Name) }).WithTimeout(binary.Patience).
		Should(ContainElement(ContainSubstring("as it has more than 63 characters. Set it")))
}

// The API server accepts this affinity. The DaemonSet controller of Kubernetes creates no Pod for it.
func TestBadInputAnAffinityThatCannotBeParsed(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.daemonSet(s.Namespace, "broken", func(d *appsv1.DaemonSet) {
		required := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "cores", Operator: "Gt", Values: []string{"many"}}}},
		}}
		d.Spec.Template.Spec.Affinity = &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required},
		}
	})
	s.expectFreed(s.node("n"))
	s.Eventually(func() []string { return s.Events(s.Target, "DaemonSet", "broken") }).WithTimeout(binary.Patience).
		Should(ContainElement(HavePrefix(
			`Warning InvalidNodeAffinity: Part of the required node affinity cannot be parsed and matches no Node, for which no Pod is made and ` +
				`none is waited for: correct it: ` +
				`spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].` +
				`values[0]: Invalid value: "many"`)))
}

func TestMissingRightsKeepTheTaint(t *testing.T) {
	s := newScene(t, binary.Options{})
	all := s.replaceRights(
		rbacv1.PolicyRule{
			APIGroups: []string{"", "apps", "storage.k8s.io"}, Resources: []string{"nodes", "pods", "daemonsets", "csinodes"},
			Verbs: []string{"list", "watch"},
		},
		rbacv1.PolicyRule{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	)
	s.AwaitForbidden(authorizationv1.ResourceAttributes{Verb: "patch", Resource: "nodes"})
	n := s.Namespace + "-n"
	held := s.pod("held", n)
	s.node("n")
	s.expectHeld(n, s.unready("held"))
	s.ready(held, "True")
	s.Eventually(func() []string { return s.Events(s.Target, "Node", n) }).WithTimeout(binary.Patience).Should(ContainElement(And(
		HavePrefix(`Warning CriticalComponentsCheckFailed: The taint stays because of an error; grant it, for example with the roles in `+
			`deploy/node-controller; it is tried again: remove taint of Node "`+n+`": `),
		ContainSubstring(`cannot patch resource "nodes"`))))
	s.Expect(s.waits(n)).To(BeTrue())
	s.Eventually(s.metric).WithArguments("espalier_node_held_back", "error").WithTimeout(binary.Patience).Should(Equal(1.0))

	s.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: all.Name}, RoleRef: all.RoleRef, Subjects: all.Subjects})
	s.expectFreed(n)
}

// beforePatch runs a function once, between the decision about a Node and the patch of it.
func (s *scene) beforePatch(name string, do func()) {
	var done atomic.Bool
	s.Requests.SetHook(func(request *http.Request) error {
		if request.Method == http.MethodPatch && request.URL.Path == "/api/v1/nodes/"+name && done.CompareAndSwap(false, true) {
			do()
		}
		return nil
	})
}

func TestTaintsOfOthersAreNeverClobbered(t *testing.T) {
	for name, tc := range map[string]struct{ taints, want []string }{
		"one is added at the end": {
			taints: []string{"example.com/a:NoSchedule", waitingTaint + ":NoSchedule", notReady, "example.com/new:NoExecute"},
			want:   []string{"example.com/a:NoSchedule", notReady, "example.com/new:NoExecute"},
		},
		"one is added at the beginning": {
			taints: []string{"example.com/new:NoExecute", "example.com/a:NoSchedule", waitingTaint + ":NoSchedule", notReady},
			want:   []string{"example.com/new:NoExecute", "example.com/a:NoSchedule", notReady},
		},
		"one before ours is removed": {
			taints: []string{waitingTaint + ":NoSchedule", notReady, "example.com/b:NoSchedule"},
			want:   []string{notReady, "example.com/b:NoSchedule"},
		},
		"ours is removed": {
			taints: []string{"example.com/a:NoSchedule", notReady},
			want:   []string{"example.com/a:NoSchedule", notReady},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, binary.Options{})
			s.beforePatch(s.Namespace+"-n", func() {
				object := &corev1.Node{}
				s.Expect(s.Target.Get(s.Ctx, client.ObjectKey{Name: s.Namespace + "-n"}, object)).To(Succeed())
				object.Spec.Taints = taintsOf(tc.taints...)
				s.Expect(s.Target.Update(s.Ctx, object)).To(Succeed())
			})
			n := s.node("n", "example.com/a:NoSchedule", waitingTaint+":NoSchedule")
			s.expectFreed(n)
			s.Expect(s.taints(n)).To(Equal(tc.want))
		})
	}
}

func TestANodeThatWasReplacedIsLookedAtAnew(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.beforePatch(s.Namespace+"-n", func() {
		s.Expect(s.Target.Delete(s.Ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace + "-n"}})).To(Succeed())
		s.pod("new", s.Namespace+"-n")
		s.node("n")
	})
	n := s.node("n")
	s.expectHeld(n, s.unready("new"))
}

func TestAnOutageOnlyDelays(t *testing.T) {
	s := newScene(t, binary.Options{})
	var refused atomic.Int64
	s.Requests.SetHook(func(request *http.Request) error {
		if request.Method == http.MethodPatch && refused.Add(1) <= 2 {
			return errors.New("synthetic")
		}
		return nil
	})
	n := s.node("n")
	s.expectFreed(n)
	s.expectReadyEvent(n)
}

// recorder records Events as "type reason".
type recorder struct{ events []string }

var _ events.EventRecorder = &recorder{}

func (r *recorder) Eventf(_, _ runtime.Object, kind, reason, _, _ string, _ ...any) {
	r.events = append(r.events, kind+" "+reason)
}

// direct returns a reconciler that the test calls directly. It reads from the API server instead of a cache, except for the objects
// that the test hides.
func (s *scene) direct(hidden interceptor.Funcs) (*criticalcomponents.Reconciler, *recorder, *clocktesting.FakePassiveClock) {
	s.T.Helper()
	admin, err := client.NewWithWatch(s.Servers.Target.Config, client.Options{Scheme: s.Target.Scheme()})
	s.Expect(err).NotTo(HaveOccurred())
	reported, now := &recorder{}, clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	s.Registry = prometheus.NewRegistry()
	r := &criticalcomponents.Reconciler{
		Client: interceptor.NewClient(admin, hidden), Live: admin, Namespaces: []string{""},
		Clock: now, Events: &criticalcomponents.Events{Recorder: reported}, Metrics: criticalcomponents.NewMetrics(s.Registry),
	}
	r.Prepare()
	return r, reported, now
}

func (s *scene) reconcile(r *criticalcomponents.Reconciler, name string) ctrl.Result {
	s.T.Helper()
	result, err := r.Reconcile(s.Ctx, ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
	s.Expect(err).NotTo(HaveOccurred())
	return result
}

func TestACacheThatLagsBehindSetsNoNodeFree(t *testing.T) {
	hide := func(hidden func(client.ObjectList) bool) interceptor.Funcs {
		return interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if hidden(list) {
				return nil
			}
			return c.List(ctx, list, options...)
		}}
	}
	t.Run("on DaemonSets", func(t *testing.T) {
		s := newScene(t, binary.Options{Stopped: true})
		s.daemonSet(s.Namespace, "critical")
		r, reported, _ := s.direct(hide(func(list client.ObjectList) bool {
			_, daemonSets := list.(*appsv1.DaemonSetList)
			return daemonSets
		}))
		n := s.node("n")
		s.Expect(s.reconcile(r, n)).To(Equal(ctrl.Result{RequeueAfter: 10 * time.Second}))
		s.Expect(reported.events).To(Equal([]string{"Warning UnscheduledNodeCriticalDaemonSets"}))
		s.Expect(s.waits(n)).To(BeTrue())
	})
	t.Run("on Pods", func(t *testing.T) {
		s := newScene(t, binary.Options{Stopped: true})
		s.pod("critical", s.Namespace+"-n")
		r, reported, _ := s.direct(hide(func(list client.ObjectList) bool {
			_, pods := list.(*corev1.PodList)
			return pods
		}))
		n := s.node("n")
		s.Expect(s.reconcile(r, n)).To(Equal(ctrl.Result{RequeueAfter: 10 * time.Second}))
		s.Expect(reported.events).To(Equal([]string{"Warning UnreadyNodeCriticalPods"}))
		s.Expect(s.waits(n)).To(BeTrue())
	})
}

func TestEventsComeOnceInAPause(t *testing.T) {
	s := newScene(t, binary.Options{Stopped: true})
	daemonSet := s.daemonSet(s.Namespace, "critical")
	r, reported, now := s.direct(interceptor.Funcs{})
	n := s.node("n")
	s.reconcile(r, n)
	s.Expect(reported.events).To(Equal([]string{"Warning UnscheduledNodeCriticalDaemonSets"}))
	pod := s.pod("critical-1", n, ownedBy(daemonSet))
	s.reconcile(r, n)
	s.Expect(reported.events).To(HaveLen(1), "the pause is not over")
	s.Expect(s.metric("espalier_node_held_back", "pods_unready")).To(Equal(1.0), "metrics do not wait")
	now.SetTime(now.Now().Add(10 * time.Second))
	s.reconcile(r, n)
	s.Expect(reported.events).To(Equal([]string{"Warning UnscheduledNodeCriticalDaemonSets", "Warning UnreadyNodeCriticalPods"}))

	s.ready(pod, "True")
	s.Expect(s.reconcile(r, n)).To(Equal(ctrl.Result{}))
	s.Expect(reported.events[2:]).To(Equal([]string{"Normal NodeCriticalComponentsReady"}), "good news do not wait either")
	s.Eventually(s.metric).WithArguments("espalier_node_held_back", "pods_unready").WithTimeout(10 * time.Second).Should(Equal(0.0))
	s.Expect(s.reconcile(r, n)).To(Equal(ctrl.Result{}))
	s.Expect(reported.events).To(HaveLen(3))
}
