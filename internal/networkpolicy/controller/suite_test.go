package controller_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/networkpolicy"
	"github.com/espalier-dev/espalier/test/binary"
)

// The labels and annotations of the contract.
const (
	prefix      = "networking.resources.gardener.cloud/"
	selectors   = prefix + "namespace-selectors"
	alias       = prefix + "pod-label-selector-namespace-alias"
	fromWorld   = prefix + "from-world-to-ports"
	pairAlias   = prefix + "from-policy-pod-label-selector"
	pairPorts   = prefix + "from-policy-allowed-ports"
	description = "gardener.cloud/description"
	handledBy   = "test.espalier.dev/handled-by"
)

// calm is how long the controller must send no request before a test considers it settled.
const calm = 700 * time.Millisecond

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }

func controllerBinary() binary.Binary {
	return binary.Binary{Name: "netpol-controller", Needs: networkpolicy.Needs, Add: networkpolicy.Add}
}

// scene is a handled namespace A and a running controller. Unless it watches the whole cluster, the controller sees only
// namespaces of this scene, so that scenes do not delete each other's policies.
type scene struct {
	*binary.Env
	A string
}

type setting struct {
	wholeCluster, ingresses, observeOnly, stopped bool
	clock                                         clock.WithTickerAndDelayedExecution
}

func newScene(t *testing.T, s setting) *scene {
	t.Helper()
	e := binary.New(t, controllerBinary(), binary.Options{
		Config: "controllers: {networkPolicy: {enabled: true}}", Stopped: true, EverySourceNamespace: true, Clock: s.clock,
	})
	scene := &scene{Env: e, A: e.Namespace}
	scene.label(scene.A, handledBy, scene.A)
	section := &e.Config.Controllers.NetworkPolicy
	section.NamespaceSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{handledBy: scene.A}}}
	if s.ingresses {
		section.IngressControllerSelector = &config.IngressControllerSelector{
			Namespace: scene.name("ingress"), PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "nginx"}},
		}
	}
	if !s.wholeCluster {
		e.Config.SourceClientConnection.Namespaces = []string{scene.A, scene.name("b"), scene.name("c"), scene.name("ingress")}
	}
	e.Config.Espalier.NetworkPolicy.ObserveOnly = ptr.To(s.observeOnly)
	if !s.stopped {
		e.Start()
	}
	if s.wholeCluster {
		scene.alone()
	}
	return scene
}

// alone waits until the policies of other tests are deleted: a controller that watches the whole cluster deletes them.
func (s *scene) alone() {
	s.T.Helper()
	s.Eventually(func() []networkingv1.NetworkPolicy {
		list := &networkingv1.NetworkPolicyList{}
		s.Expect(s.Target.List(s.Ctx, list, client.HasLabels{prefix + "service-name", prefix + "service-namespace"})).To(Succeed())
		return list.Items
	}).WithTimeout(binary.Patience).Should(BeEmpty())
}

// name returns the name of another namespace of the scene.
func (s *scene) name(suffix string) string { return s.A + "-" + suffix }

// namespace creates another namespace of the scene.
func (s *scene) namespace(suffix string, labels map[string]string) string {
	s.T.Helper()
	s.Expect(s.Target.Create(s.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name(suffix), Labels: labels}})).To(Succeed())
	return s.name(suffix)
}

// label sets a label of a namespace, or removes it for the value "".
func (s *scene) label(namespace, key, value string) {
	s.T.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	s.change(object, func() {
		metav1.SetMetaDataLabel(&object.ObjectMeta, key, value)
		if value == "" {
			delete(object.Labels, key)
		}
	})
}

// change reads an object, changes it and writes it.
func (s *scene) change(object client.Object, change func()) {
	s.T.Helper()
	s.Expect(s.Target.Get(s.Ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	before, ok := object.DeepCopyObject().(client.Object)
	s.Expect(ok).To(BeTrue())
	change()
	s.Expect(s.Target.Patch(s.Ctx, object, client.MergeFrom(before))).To(Succeed())
}

// service creates the Service s of the acceptance criteria in A.
func (s *scene) service(annotations map[string]string, changes ...func(*corev1.Service)) *corev1.Service {
	s.T.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.A, Name: "s", Annotations: annotations},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"foo": "bar"}, Ports: []corev1.ServicePort{
			{Name: "one", Port: 1234, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(5678)},
			{Name: "two", Port: 9012, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromString("testport")},
		}},
	}
	for _, change := range changes {
		change(service)
	}
	s.Expect(s.Target.Create(s.Ctx, service)).To(Succeed())
	return service
}

func (s *scene) annotate(service *corev1.Service, key, value string) {
	s.T.Helper()
	s.change(service, func() { metav1.SetMetaDataAnnotation(&service.ObjectMeta, key, value) })
}

// names returns the policies of the scene's namespaces as "a/name", without the prefix of the scene.
func (s *scene) names(ctx context.Context) []string {
	list := &networkingv1.NetworkPolicyList{}
	if err := s.Target.List(ctx, list); err != nil {
		return []string{err.Error()}
	}
	names := []string{}
	for _, policy := range list.Items {
		if policy.Namespace == s.A || strings.HasPrefix(policy.Namespace, s.A+"-") {
			names = append(names, s.short(policy.Namespace+"/"+policy.Name))
		}
	}
	slices.Sort(names)
	return names
}

// short replaces the names of the scene's namespaces by a, b, c and ingress.
func (s *scene) short(text string) string {
	return strings.NewReplacer(s.name("b"), "b", s.name("c"), "c", s.name("ingress"), "ingress", s.A, "a").Replace(text)
}

// own are the policies of Service s for its own namespace.
func own() []string {
	return []string{"a/egress-to-s-tcp-5678", "a/egress-to-s-udp-testport", "a/ingress-to-s-tcp-5678", "a/ingress-to-s-udp-testport"}
}

// across are the policies for clients in another namespace.
func across(client string) []string {
	return []string{
		client + "/egress-to-a-s-tcp-5678", client + "/egress-to-a-s-udp-testport",
		"a/ingress-to-s-tcp-5678-from-" + client, "a/ingress-to-s-udp-testport-from-" + client,
	}
}

// awaits waits until exactly these policies exist.
func (s *scene) awaits(names ...[]string) {
	s.T.Helper()
	want := slices.Sorted(slices.Values(slices.Concat(names...)))
	if len(want) == 0 {
		want = []string{}
	}
	s.Eventually(s.names).WithContext(s.Ctx).WithTimeout(binary.Patience).Should(Equal(want))
}

// policy reads one policy, without the fields that the API server adds.
func (s *scene) policy(namespace, name string) *networkingv1.NetworkPolicy {
	s.T.Helper()
	policy := &networkingv1.NetworkPolicy{}
	s.Expect(s.Target.Get(s.Ctx, types.NamespacedName{Namespace: namespace, Name: name}, policy)).To(Succeed())
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: policy.Namespace, Name: policy.Name, Labels: policy.Labels, Annotations: policy.Annotations},
		Spec:       policy.Spec,
	}
}

// settled waits until no requests are sent any more, and returns the requests since the last Reset.
func (s *scene) settled() []string {
	s.T.Helper()
	last, since := -1, time.Now()
	s.Eventually(func() bool {
		if n := len(s.Requests.Seen()); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > calm
	}).WithTimeout(binary.Patience).Should(BeTrue())
	return s.Requests.Seen()
}

// events returns the Events about a Service, with short names of namespaces.
func (s *scene) events(service string) []string {
	var events []string
	for _, each := range s.Events(s.Target, "Service", service) {
		events = append(events, s.short(each))
	}
	return events
}

func (s *scene) awaitsEvent(service string, expected any) {
	s.T.Helper()
	s.Eventually(func() []string { return s.events(service) }).WithTimeout(binary.Patience).Should(ContainElement(expected))
}

func (s *scene) create(objects ...client.Object) {
	s.T.Helper()
	for _, object := range objects {
		s.Expect(s.Target.Create(s.Ctx, object)).To(Succeed())
	}
}

// foreign returns a policy of another owner.
func foreign(namespace, name string, labels map[string]string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{"Ingress"}},
	}
}

func ownedBy(namespace, service string) map[string]string {
	return map[string]string{prefix + "service-name": service, prefix + "service-namespace": namespace}
}
