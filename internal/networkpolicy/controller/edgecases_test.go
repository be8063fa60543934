package controller_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/binary"
)

func TestInvalidAnnotationsChangeNoPolicies(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	s.namespace("b", map[string]string{"other": "namespace"})
	service := s.service(map[string]string{selectors: selecting})
	s.awaits(own(), across("b"))
	for key, tc := range map[string]struct{ value, event string }{
		selectors: {
			`[{"matchLabels"`,
			`Warning InvalidAnnotation: Service a/s: annotation ` + selectors +
				`: failed unmarshaling "[{\"matchLabels\"": unexpected EOF: write a JSON list of label selectors such as ` +
				`[{"matchLabels":{"role":"client"}}], or remove the annotation. The policies it is about stay as they are`,
		},
		prefix + "from-x-allowed-ports": {
			`[{"port":80,"protocol":"HTTP"}]`,
			`Warning InvalidAnnotation: Service a/s: annotation ` + prefix +
				`from-x-allowed-ports: [0]: protocol "HTTP" is none of TCP, UDP, SCTP: write a JSON list of ports such as [{"port":8080,` +
				`"protocol":"TCP"}], or remove the annotation. The policies it is about stay as they are`,
		},
		prefix + "from-Bad_-allowed-ports": {
			`[]`,
			`Warning InvalidAnnotation: Service a/s: annotation ` + prefix +
				`from-Bad_-allowed-ports: "Bad_" cannot be a part of a policy's name: the alias becomes a part of a policy's name: use lower-case ` +
				`letters, digits, dashes and dots between a letter or digit at both ends. The policies it is about stay as they are`,
		},
		prefix + "from-typo-allowed-ports": {
			`[{"prot":80}]`,
			`Warning InvalidAnnotation: Service a/s: annotation ` + prefix +
				`from-typo-allowed-ports: failed unmarshaling "[{\"prot\":80}]": json: unknown field "prot": write a JSON list of ports such as ` +
				`[{"port":8080,"protocol":"TCP"}], or remove the annotation. The policies it is about stay as they are`,
		},
		prefix + "pod-label-selector-namespace-alias": {
			`a b`,
			`Warning InvalidAnnotation: Service a/s: annotation ` + alias +
				`: "a b" cannot be a part of a label's key: it becomes a part of a label's key: use letters, digits, dashes, dots and ` +
				`underscores. The policies it is about stay as they are`,
		},
	} {
		before := service.DeepCopy()
		s.change(service, func() {
			metav1.SetMetaDataAnnotation(&service.ObjectMeta, key, tc.value)
			service.Spec.Ports[0].TargetPort = intstr.FromInt32(77) // would change all policies
		})
		s.awaitsEvent("s", tc.event)
		s.awaits(own(), across("b"))
		s.change(service, func() { service.Annotations, service.Spec = before.Annotations, before.Spec })
	}
	// Other Services are still handled, and an invalid selector is reported too.
	s.annotate(service, selectors, `[{"matchExpressions":[{"key":"a","operator":"Near"}]}]`)
	s.awaitsEvent("s", ContainSubstring(`failed parsing`))
	s.service(nil, func(other *corev1.Service) { other.Name = "t" })
	s.awaits(own(), across("b"), []string{
		"a/egress-to-t-tcp-5678", "a/egress-to-t-udp-testport", "a/ingress-to-t-tcp-5678", "a/ingress-to-t-udp-testport",
	})
	s.Expect(s.Target.Delete(s.Ctx, service)).To(Succeed())
	s.awaits([]string{"a/egress-to-t-tcp-5678", "a/egress-to-t-udp-testport", "a/ingress-to-t-tcp-5678", "a/ingress-to-t-udp-testport"})
}

func TestInvalidWorldPortsAffectOnlyTheirOwnPolicy(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	service := s.service(map[string]string{fromWorld: `[{"port":1}]`})
	world := []string{"a/ingress-to-s-from-world"}
	s.awaits(own(), world)
	before := s.policy(s.A, "ingress-to-s-from-world")
	for _, value := range []string{"", "null", `[{"port":`, `[null]`} {
		s.annotate(service, fromWorld, value)
		s.annotate(service, prefix+"from-x-allowed-ports", `[{"port":3456}]`)
		s.awaits(own(), world, via("x", "tcp-3456"))
		s.change(service, func() { delete(service.Annotations, prefix+"from-x-allowed-ports") })
		s.awaits(own(), world)
	}
	s.Expect(s.policy(s.A, "ingress-to-s-from-world")).To(BeComparableTo(before))
	s.awaitsEvent("s",
		`Warning InvalidAnnotation: Service a/s: annotation `+fromWorld+
			`: failed unmarshaling "": it is empty: write a JSON list of ports such as [{"port":8080,"protocol":"TCP"}], [] for all ports, or `+
			`remove the annotation. The policies it is about stay as they are`)
}

func TestPortsInAnnotationsAreCompletedAndDeduplicated(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	s.service(map[string]string{
		prefix + "from-all-scrape-targets-allowed-ports": `[{"port":"10250"},{"port":8080,"endPort":8090,"protocol":"SCTP"}]`,
		prefix + "from-again-allowed-ports":              `[{"port":10250},{"port":"10250","protocol":"TCP"}]`,
	}, func(service *corev1.Service) {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
			Name: "same", Port: 4321, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(5678),
		})
	})
	s.awaits(own(), via("all-scrape-targets", "tcp-10250", "sctp-8080"), via("again", "tcp-10250"))
	ports := s.policy(s.A, "ingress-to-s-sctp-8080-via-all-scrape-targets").Spec.Ingress[0].Ports
	s.Expect(*ports[0].EndPort).To(Equal(int32(8090)))
}

func TestTerminatingNamespaceOfAServiceIsNotChanged(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	s.service(nil)
	s.awaits(own())
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.A, Name: "s"}}
	s.change(service, func() { service.Finalizers = []string{"test.espalier.dev/hold"} })
	s.settled()
	s.Requests.Reset()
	s.Expect(s.Target.Delete(s.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.A}})).To(Succeed())
	s.awaits() // the namespace controller deletes them
	s.Expect(s.settled()).NotTo(ContainElement(HavePrefix("POST ")))
	s.change(service, func() { service.Finalizers = nil })
}

func TestPoliciesInATerminatingClientNamespaceAreDeleted(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	b := s.namespace("b", map[string]string{"other": "namespace"})
	s.service(map[string]string{selectors: selecting})
	s.awaits(own(), across("b"))
	held := foreign(b, "held", nil)
	held.Finalizers = []string{"test.espalier.dev/hold"}
	s.create(held)
	s.Expect(s.Target.Delete(s.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b}})).To(Succeed())
	s.awaits(own(), []string{"b/held"}) // while b still terminates
	s.change(held, func() { held.Finalizers = nil })
}

func TestDeprecatedKeyIsNoAlias(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	s.service(map[string]string{pairPorts: `[{"port":1}]`})
	s.awaits(own())
}

func TestAliasesAllowPodsOfSelectedNamespaces(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	b := s.namespace("b", map[string]string{"other": "namespace"})
	s.service(map[string]string{selectors: selecting, alias: "all-shoots", prefix + "from-x-allowed-ports": `[{"port":1}]`})
	s.awaits(own(), across("b"), via("x", "tcp-1"), []string{"b/egress-to-a-s-tcp-1-via-x", "a/ingress-to-s-tcp-1-via-x-from-b"})
	s.Expect(s.policy(b, "egress-to-"+s.A+"-s-tcp-1-via-x").Spec.PodSelector).To(BeComparableTo(labelled(prefix+"to-all-shoots-x", "allowed")))
}

func TestPoliciesOfUnhandledNamespacesAreDeleted(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	b := s.namespace("b", nil)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: b, Name: "u"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Port: 1}}},
	}
	s.create(service, foreign(b, "left-over", ownedBy(b, "u")))
	s.service(nil)
	s.awaits(own())
}

func TestMissingNamespaceOfTheIngressControllerIsReported(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{ingresses: true})
	s.service(nil)
	s.ingress(networkingv1.ServiceBackendPort{Number: 1234})
	s.awaits(own(), []string{"a/ingress-to-s-tcp-5678-from-ingress-controller"})
	s.awaitsEvent("s",
		ContainSubstring("Warning IngressControllerNamespaceMissing: Namespace ingress of the ingress controller does not exist"))
	s.namespace("ingress", nil)
	s.awaits(own(), []string{"a/ingress-to-s-tcp-5678-from-ingress-controller", "ingress/egress-to-a-s-tcp-5678-from-ingress-controller"})
}

func TestEdgeCaseAnIngressThatNoLongerNamesTheService(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{ingresses: true})
	s.namespace("ingress", nil)
	s.service(nil)
	ingress := s.ingress(networkingv1.ServiceBackendPort{Number: 1234})
	s.awaits(own(), []string{"a/ingress-to-s-tcp-5678-from-ingress-controller", "ingress/egress-to-a-s-tcp-5678-from-ingress-controller"})
	s.change(ingress, func() { ingress.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name = "other" })
	s.awaits(own())
}

// Architecture: never change a policy of another owner.
func TestForeignPoliciesAreNeverTouched(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{stopped: true})
	theirs := foreign(s.A, "ingress-to-s-tcp-5678", nil)
	half := foreign(s.A, "egress-to-s-tcp-5678", map[string]string{prefix + "service-name": "s"})
	s.create(theirs, half)
	before := []*networkingv1.NetworkPolicy{s.policy(s.A, theirs.Name), s.policy(s.A, half.Name)}
	service := s.service(nil)
	s.Start()
	s.awaits(own())
	s.awaitsEvent("s",
		ContainSubstring("Warning PolicyNameTaken: NetworkPolicy a/egress-to-s-tcp-5678 exists and belongs to another client: it has not "+
			"both labels of a Service, another spec and another description; it is left alone: rename or delete it"))
	s.Expect([]*networkingv1.NetworkPolicy{s.policy(s.A, theirs.Name), s.policy(s.A, half.Name)}).To(BeComparableTo(before))
	s.Expect(s.Target.Delete(s.Ctx, service)).To(Succeed())
	s.awaits([]string{"a/egress-to-s-tcp-5678", "a/ingress-to-s-tcp-5678"})
}

func TestAPolicyOfAnotherServiceIsNeverTouched(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	s.service(nil)
	s.awaits(own())
	// The alias ports of s-tcp-5678-via-x would have the same names as the ports of s for the alias x-udp-1-via-y.
	before := s.policy(s.A, "ingress-to-s-tcp-5678")
	s.service(map[string]string{pairAlias: "y", pairPorts: `[{"port":1}]`}, func(other *corev1.Service) {
		other.Name, other.Spec.Ports = "s-tcp-5678-via-x", other.Spec.Ports[:1]
	})
	contested := "a/ingress-to-s-tcp-5678-via-x-tcp-1-via-y"
	others := []string{
		contested, "a/egress-to-s-tcp-5678-via-x-tcp-1-via-y", "a/ingress-to-s-tcp-5678-via-x-tcp-5678", "a/egress-to-s-tcp-5678-via-x-tcp-5678",
	}
	s.awaits(own(), others)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.A, Name: "s"}}
	s.annotate(service, prefix+"from-x-tcp-1-via-y-allowed-ports", `[{"port":5678}]`)
	s.awaitsEvent("s",
		ContainSubstring("NetworkPolicy "+contested+" exists and belongs to Service a/s-tcp-5678-via-x; it is left alone: rename or delete it"))
	s.awaits(own(), others)
	s.Expect(s.policy(s.A, "ingress-to-s-tcp-5678")).To(BeComparableTo(before))

	// The Service gets the name as soon as the other Service releases it.
	s.Expect(s.Target.Delete(s.Ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.A, Name: "s-tcp-5678-via-x"}})).To(Succeed())
	s.awaits(own(), via("x-tcp-1-via-y", "tcp-5678"))
}

func TestUnlabelledPoliciesThatAreOursAreTakenOver(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	service := s.service(nil)
	s.awaits(own())
	s.Stop()
	sameSpec, sameText := s.policy(s.A, "ingress-to-s-tcp-5678"), s.policy(s.A, "egress-to-s-tcp-5678")
	wantSpec, wantText := sameSpec.DeepCopy(), sameText.DeepCopy()
	s.change(sameSpec, func() { sameSpec.Labels, sameSpec.Annotations = nil, nil })
	s.change(sameText, func() { sameText.Labels, sameText.Spec.Egress = nil, nil })
	s.Start()
	s.Eventually(func() []*networkingv1.NetworkPolicy {
		return []*networkingv1.NetworkPolicy{s.policy(s.A, sameSpec.Name), s.policy(s.A, sameText.Name)}
	}).WithTimeout(binary.Patience).Should(BeComparableTo([]*networkingv1.NetworkPolicy{wantSpec, wantText}))
	s.Expect(s.Target.Delete(s.Ctx, service)).To(Succeed())
	s.awaits()
}

func TestWhatIsTooLongIsShortened(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	long := strings.Repeat("l", 240)
	s.service(map[string]string{
		pairAlias: long, pairPorts: `[{"port":1}]`,
	}, func(service *corev1.Service) { service.Spec.Ports = service.Spec.Ports[:1] })
	// printf 'ingress-to-s-tcp-1-via-%s' lll… | sha256sum
	s.awaits([]string{
		"a/egress-to-s-tcp-5678", "a/ingress-to-s-tcp-5678",
		"a/ingress-to-s-tcp-1-via-" + long[:221] + "-66d1e074", "a/egress-to-s-tcp-1-via-" + long[:222] + "-1fb97e46",
	})
	// printf 'to-%s' lll… | sha256sum
	s.Expect(s.policy(s.A, "egress-to-s-tcp-1-via-"+long[:222]+"-1fb97e46").Spec.PodSelector).
		To(BeComparableTo(labelled(prefix+"to-"+long[:54]+"-794e1", "allowed")))
	s.awaitsEvent("s",
		ContainSubstring("Warning PodLabelSelectorKeysTooLong: The label key "+prefix+"to-"+long+" is too long, "+prefix+"to-"+long[:54]+
			"-794e1 is used instead: give it to client Pods"))
	s.awaitsEvent("s",
		ContainSubstring("Warning PolicyNamesTooLong: The policy name ingress-to-s-tcp-1-via-"+long+" is too long, ingress-to-s-tcp-1-via-"+
			long[:221]+"-66d1e074 is used instead"))
}

// The controller sends requests only about objects that have changed. These tests watch the whole cluster, so they do not run in
// parallel with others.
func TestUnrelatedNamespacesCauseNoRequest(t *testing.T) {
	s := newScene(t, setting{wholeCluster: true})
	s.service(map[string]string{selectors: selecting})
	s.awaits(own())
	s.settled()
	s.Requests.Reset()
	unrelated := s.namespace("b", nil)
	s.label(unrelated, "some", "label")
	s.Expect(s.Target.Delete(s.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: unrelated}})).To(Succeed())
	s.Expect(s.settled()).To(BeEmpty())
}

func TestANewClientNamespaceCostsOnlyItsOwnPolicies(t *testing.T) {
	s := newScene(t, setting{wholeCluster: true})
	s.namespace("b", map[string]string{"other": "namespace"})
	s.service(map[string]string{selectors: selecting})
	s.awaits(own(), across("b"))
	s.settled()
	s.Requests.Reset()
	c := s.namespace("c", map[string]string{"other": "namespace"})
	s.awaits(own(), across("b"), across("c"))
	path := "POST /apis/networking.k8s.io/v1/namespaces/"
	s.Expect(s.settled()).To(ConsistOf(path+s.A+"/networkpolicies", path+s.A+"/networkpolicies", path+c+"/networkpolicies",
		path+c+"/networkpolicies"))

	s.Requests.Reset()
	s.Restart(nil)
	s.settled()
	s.Expect(s.Requests.Writes()).To(HaveEach(HavePrefix("POST /apis/authorization.k8s.io/"))) // a start writes nothing
	s.Requests.Reset()
	s.label(c, "other", "")
	s.awaits(own(), across("b"))
	s.Expect(s.settled()).To(HaveLen(4))
}

func TestOrphansAreRemovedAtStart(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	s.namespace("b", map[string]string{"other": "namespace"})
	service := s.service(map[string]string{selectors: selecting})
	s.awaits(own(), across("b"))
	s.Restart(func() { s.Expect(s.Target.Delete(s.Ctx, service)).To(Succeed()) })
	s.awaits()
}

func TestObserveOnlyReportsAndWritesNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{observeOnly: true, stopped: true})
	s.create(foreign(s.A, "left-over", ownedBy(s.A, "s")), foreign(s.A, "ingress-to-s-tcp-5678", ownedBy(s.A, "s")))
	service := s.service(nil, func(service *corev1.Service) { service.Spec.Ports = service.Spec.Ports[:1] })
	s.Start()
	s.awaitsEvent("s", "Normal PoliciesDiffer: Would create 1, update 1 and delete 1 NetworkPolicies, but the controller only observes: "+
		"update a/ingress-to-s-tcp-5678, create a/egress-to-s-tcp-5678, delete a/left-over")
	s.Eventually(s.pending).WithTimeout(binary.Patience).Should(Equal(map[string]float64{"create": 1, "update": 1, "delete": 1}))
	s.change(service, func() { service.Spec.Selector = nil })
	s.Eventually(s.pending).WithTimeout(binary.Patience).Should(Equal(map[string]float64{"create": 0, "update": 0, "delete": 2}))
	s.settled()
	s.awaits([]string{"a/ingress-to-s-tcp-5678", "a/left-over"})
	for _, each := range s.Requests.Writes() {
		s.Expect(each).To(HavePrefix("POST /apis/authorization.k8s.io/"))
	}
}

// pending returns the metric of pending changes.
func (s *scene) pending() map[string]float64 {
	s.T.Helper()
	return s.byAction("espalier_networkpolicy_pending_changes")
}

// byAction returns the values of a metric by its label action.
func (s *scene) byAction(name string) map[string]float64 {
	s.T.Helper()
	families, err := s.Registry.Gather()
	s.Expect(err).NotTo(HaveOccurred())
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			values[metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
	}
	return values
}

// If the cache still has a namespace that is gone, the API server's rejection is no failure.
func TestAClientNamespaceThatGoesMeanwhile(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	b := s.namespace("b", map[string]string{"other": "namespace"})
	clients, err := kubernetes.NewForConfig(s.Servers.Source.Config)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(clients.CoreV1().Namespaces().Delete(s.Ctx, b, metav1.DeleteOptions{})).To(Succeed())
	s.service(map[string]string{selectors: selecting})
	s.awaits(own())
	s.Expect(s.events("s")).To(BeEmpty())
	s.Expect(client.IgnoreNotFound(s.Target.Get(s.Ctx, client.ObjectKey{Name: b}, &corev1.Namespace{}))).To(Succeed())
}
