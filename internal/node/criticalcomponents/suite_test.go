package criticalcomponents_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/node"
	"github.com/espalier-dev/espalier/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServers(m)) }

const (
	waitingTaint = "node.gardener.cloud/critical-components-not-ready"
	critical     = "node.gardener.cloud/critical-component"
	waitForCSI   = "node.gardener.cloud/wait-for-csi-node-"
	// notReady is the taint that the API server itself sets on every new Node.
	notReady = "node.kubernetes.io/not-ready:NoSchedule"
)

func nodeController() binary.Binary {
	return binary.Binary{Name: "node-controller", Needs: node.Needs, Add: node.Add}
}

// scene is a running node-controller. Its Nodes are in the target, where no other client uses them. The names of cluster-scoped objects
// begin with the name of the scene's namespace.
type scene struct{ *binary.Env }

func newScene(t *testing.T, o binary.Options) *scene {
	t.Helper()
	o.TwoClusters = true
	if o.Config == "" {
		o.Config = "controllers: {node: {enabled: true}}"
	}
	configure := o.Configure
	o.Configure = func(cfg *config.ResourceManagerConfiguration) {
		cfg.Controllers.Node.Backoff = &metav1.Duration{Duration: 100 * time.Millisecond}
		if configure != nil {
			configure(cfg)
		}
	}
	s := &scene{binary.New(t, nodeController(), o)}
	s.account(s.Namespace)
	return s
}

// account creates the default ServiceAccount of a namespace, which Pods need.
func (s *scene) account(namespace string) {
	s.T.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	s.Expect(client.IgnoreAlreadyExists(s.Target.Create(s.Ctx, account))).To(Succeed())
}

// create creates an object in the target and deletes it at the end of the test: otherwise every Node of the cluster might wait for it.
func (s *scene) create(object client.Object) {
	s.T.Helper()
	s.Expect(s.Target.Create(s.Ctx, object)).To(Succeed())
	s.T.Cleanup(func() {
		gone, ok := object.DeepCopyObject().(client.Object)
		s.Expect(ok).To(BeTrue())
		s.Expect(client.IgnoreNotFound(s.Target.Delete(context.Background(), gone, client.GracePeriodSeconds(0)))).To(Succeed())
	})
}

// node creates a Node with taints, given as "key:effect"; by default with the taint for critical components.
func (s *scene) node(name string, taints ...string) string {
	s.T.Helper()
	if len(taints) == 0 {
		taints = []string{waitingTaint + ":NoSchedule"}
	}
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace + "-" + name, Labels: map[string]string{"zone": "a"}}}
	object.Spec.Taints = taintsOf(taints...)
	s.create(object)
	return object.Name
}

func taintsOf(taints ...string) []corev1.Taint {
	var all []corev1.Taint
	for _, each := range taints {
		key, effect, _ := strings.Cut(each, ":")
		key, value, _ := strings.Cut(key, "=")
		all = append(all, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return all
}

// taints returns the taints of a Node as "key=value:effect".
func (s *scene) taints(name string) []string {
	s.T.Helper()
	object := &corev1.Node{}
	s.Expect(s.Target.Get(s.Ctx, client.ObjectKey{Name: name}, object)).To(Succeed())
	texts := make([]string, 0, len(object.Spec.Taints))
	for _, taint := range object.Spec.Taints {
		texts = append(texts, taint.ToString())
	}
	return texts
}

func (s *scene) waits(name string) bool {
	s.T.Helper()
	return slices.ContainsFunc(s.taints(name), func(taint string) bool { return strings.HasPrefix(taint, waitingTaint) })
}

func (s *scene) expectFreed(name string) {
	s.T.Helper()
	s.Eventually(func() bool { return s.waits(name) }).WithTimeout(binary.Patience).Should(BeFalse())
}

// expectEvent waits for an Event, given as "type reason: note".
func (s *scene) expectEvent(kind, name, event string) {
	s.T.Helper()
	s.Eventually(func() []string { return s.Events(s.Target, kind, name) }).WithTimeout(binary.Patience).Should(ContainElement(event))
}

// expectHeld waits for an Event, and requires that the Node still has its taint.
func (s *scene) expectHeld(name, event string) {
	s.T.Helper()
	s.expectEvent("Node", name, event)
	s.Expect(s.waits(name)).To(BeTrue())
}

func (s *scene) expectReadyEvent(name string) {
	s.T.Helper()
	s.expectEvent("Node", name, "Normal NodeCriticalComponentsReady: All node-critical components got ready, removing taint")
}

// template returns a template of Pods that tolerate every taint with the effect NoSchedule.
func template(labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		Containers:  []corev1.Container{{Name: "c", Image: "none"}},
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
	}}
}

// daemonSet creates a DaemonSet with both labels, and with changes.
func (s *scene) daemonSet(namespace, name string, change ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	s.T.Helper()
	object := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{critical: "true"}}}
	object.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	object.Spec.Template = template(map[string]string{"app": name, critical: "true"})
	for _, each := range change {
		each(object)
	}
	s.create(object)
	return object
}

// pod creates a critical Pod on a Node, with changes.
func (s *scene) pod(name, on string, change ...func(*corev1.Pod)) *corev1.Pod {
	s.T.Helper()
	from := template(map[string]string{critical: "true"})
	object := &corev1.Pod{ObjectMeta: from.ObjectMeta, Spec: from.Spec}
	object.Namespace, object.Name, object.Spec.NodeName = s.Namespace, name, on
	for _, each := range change {
		each(object)
	}
	s.create(object)
	return object
}

func ownedBy(daemonSet *appsv1.DaemonSet) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "DaemonSet", Name: daemonSet.Name, UID: daemonSet.UID, Controller: ptr.To(true)},
		}
	}
}

func annotated(annotations ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for i := 0; i < len(annotations); i += 2 {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, annotations[i], annotations[i+1])
		}
	}
}

// ready sets the condition Ready of a Pod.
func (s *scene) ready(pod *corev1.Pod, status corev1.ConditionStatus) {
	s.T.Helper()
	before := client.MergeFrom(pod.DeepCopy())
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	s.Expect(s.Target.Status().Patch(s.Ctx, pod, before)).To(Succeed())
}

func (s *scene) csiNode(name string, drivers ...string) {
	s.T.Helper()
	object := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{}}}
	for _, driver := range drivers {
		object.Spec.Drivers = append(object.Spec.Drivers, storagev1.CSINodeDriver{Name: driver, NodeID: name})
	}
	s.create(object)
}

// metric returns the value of a counter or gauge, or the number of observations of a histogram.
func (s *scene) metric(name, cause string) float64 {
	s.T.Helper()
	families, err := s.Registry.Gather()
	s.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == name && (cause == "" || metric.GetLabel()[0].GetValue() == cause) {
				return metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return -1
}
