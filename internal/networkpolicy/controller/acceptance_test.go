package controller_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/test/binary"
)

// selecting is the annotation of the acceptance criteria that makes namespaces with other=namespace clients.
const selecting = `[{"matchLabels":{"other":"namespace"}}]`

func portOf(protocol corev1.Protocol, port intstr.IntOrString) []networkingv1.NetworkPolicyPort {
	return []networkingv1.NetworkPolicyPort{{Protocol: &protocol, Port: &port}}
}

func labelled(labels ...string) metav1.LabelSelector {
	selector := metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := 0; i < len(labels); i += 2 {
		selector.MatchLabels[labels[i]] = labels[i+1]
	}
	return selector
}

func TestServiceGetsPoliciesInItsNamespace(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	s.namespace("b", map[string]string{"other": "namespace"})
	s.service(nil)
	s.awaits(own())

	type spec = networkingv1.NetworkPolicySpec
	ingress := func(client string, ports []networkingv1.NetworkPolicyPort) spec {
		return spec{
			PodSelector: labelled("foo", "bar"), PolicyTypes: []networkingv1.PolicyType{"Ingress"},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From: []networkingv1.NetworkPolicyPeer{{PodSelector: ptr.To(labelled(prefix+client, "allowed"))}}, Ports: ports,
			}},
		}
	}
	egress := func(client string, ports []networkingv1.NetworkPolicyPort) spec {
		return spec{
			PodSelector: labelled(prefix+client, "allowed"), PolicyTypes: []networkingv1.PolicyType{"Egress"},
			Egress: []networkingv1.NetworkPolicyEgressRule{{
				To: []networkingv1.NetworkPolicyPeer{{PodSelector: ptr.To(labelled("foo", "bar"))}}, Ports: ports,
			}},
		}
	}
	tcp, udp := portOf("TCP", intstr.FromInt32(5678)), portOf("UDP", intstr.FromString("testport"))
	for name, want := range map[string]struct {
		spec spec
		text string
	}{
		"ingress-to-s-tcp-5678": {
			ingress("to-s-tcp-5678", tcp),
			"Allows ingress TCP traffic to port 5678 for pods selected by the A/s service selector from pods running in namespace A labeled " +
				"with map[networking.resources.gardener.cloud/to-s-tcp-5678:allowed].",
		},
		"egress-to-s-tcp-5678": {
			egress("to-s-tcp-5678", tcp),
			"Allows egress TCP traffic to port 5678 from pods running in namespace A labeled with " +
				"map[networking.resources.gardener.cloud/to-s-tcp-5678:allowed] to pods selected by the A/s service selector.",
		},
		"ingress-to-s-udp-testport": {
			ingress("to-s-udp-testport", udp),
			"Allows ingress UDP traffic to port testport for pods selected by the A/s service selector from pods running in namespace A " +
				"labeled with map[networking.resources.gardener.cloud/to-s-udp-testport:allowed].",
		},
		"egress-to-s-udp-testport": {
			egress("to-s-udp-testport", udp),
			"Allows egress UDP traffic to port testport from pods running in namespace A labeled with " +
				"map[networking.resources.gardener.cloud/to-s-udp-testport:allowed] to pods selected by the A/s service selector.",
		},
	} {
		s.Expect(s.policy(s.A, name)).To(BeComparableTo(&networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.A, Name: name, Labels: ownedBy(s.A, "s"),
				Annotations: map[string]string{
					description: strings.NewReplacer("A/", s.A+"/", "namespace A ", "namespace "+s.A+" ").Replace(want.text),
				},
			},
			Spec: want.spec,
		}))
	}
	s.settled()
	s.awaits(own())
}

func TestServiceWithoutSelectorGetsNoPolicies(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	s.service(nil, func(service *corev1.Service) { service.Name, service.Spec.Selector = "without", nil })
	service := s.service(nil)
	s.awaits(own())
	s.change(service, func() { service.Spec.Selector = nil })
	s.awaits()
}

func TestAddedPortGetsPolicies(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	service := s.service(nil)
	s.awaits(own())
	s.change(service, func() {
		service.Spec.Ports[0] = corev1.ServicePort{Name: "one", Port: 1357, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromInt32(2468)}
	})
	s.awaits([]string{"a/egress-to-s-udp-2468", "a/egress-to-s-udp-testport", "a/ingress-to-s-udp-2468", "a/ingress-to-s-udp-testport"})
}

func TestPoliciesOfADeletedServiceAreDeleted(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	s.namespace("b", map[string]string{"other": "namespace"})
	service := s.service(map[string]string{selectors: selecting, fromWorld: "[]"})
	s.awaits(own(), across("b"), []string{"a/ingress-to-s-from-world"})
	s.Expect(s.Target.Delete(s.Ctx, service)).To(Succeed())
	s.awaits()
}

func TestPoliciesFollowTheNamespaceSelector(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	s.service(nil)
	s.awaits(own())
	s.label(s.A, handledBy, "")
	s.awaits()
	s.label(s.A, handledBy, s.A)
	s.awaits(own())
}

func TestPoliciesOfMissingServicesAreDeleted(t *testing.T) {
	s := newScene(t, setting{wholeCluster: true})
	s.create(foreign(s.A, "one", ownedBy(s.A, "foo")), foreign(s.A, "two", ownedBy("bar", "foo")), foreign(s.A, "three", nil))
	s.awaits([]string{"a/three"})
}

func TestServiceGetsPoliciesInSelectedNamespaces(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	b := s.namespace("b", map[string]string{"other": "namespace"})
	s.service(map[string]string{selectors: selecting})
	s.awaits(own(), across("b"))

	client := labelled(prefix+"to-"+s.A+"-s-tcp-5678", "allowed")
	s.Expect(s.policy(s.A, "ingress-to-s-tcp-5678-from-"+b).Spec).To(BeComparableTo(networkingv1.NetworkPolicySpec{
		PodSelector: labelled("foo", "bar"), PolicyTypes: []networkingv1.PolicyType{"Ingress"},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: portOf("TCP", intstr.FromInt32(5678)), From: []networkingv1.NetworkPolicyPeer{{
			PodSelector: &client, NamespaceSelector: ptr.To(labelled("kubernetes.io/metadata.name", b)),
		}}}},
	}))
	s.Expect(s.policy(b, "egress-to-"+s.A+"-s-tcp-5678").Spec).To(BeComparableTo(networkingv1.NetworkPolicySpec{
		PodSelector: client, PolicyTypes: []networkingv1.PolicyType{"Egress"},
		Egress: []networkingv1.NetworkPolicyEgressRule{{Ports: portOf("TCP", intstr.FromInt32(5678)), To: []networkingv1.NetworkPolicyPeer{{
			PodSelector: ptr.To(labelled("foo", "bar")), NamespaceSelector: ptr.To(labelled("kubernetes.io/metadata.name", s.A)),
		}}}},
	}))

	s.label(b, "other", "")
	s.awaits(own())
	s.namespace("c", map[string]string{"other": "namespace"})
	s.awaits(own(), across("c"))
}

func TestNamespaceAliasIsUsedInPodLabels(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	b := s.namespace("b", map[string]string{"other": "namespace"})
	s.service(map[string]string{selectors: selecting, alias: "alias"})
	s.awaits(own(), across("b"))
	s.Expect(s.policy(b, "egress-to-"+s.A+"-s-tcp-5678").Spec.PodSelector).
		To(BeComparableTo(labelled(prefix+"to-alias-s-tcp-5678", "allowed")))
	s.Expect(s.policy(s.A, "ingress-to-s-tcp-5678-from-"+b).Spec.Ingress[0].From[0].PodSelector).
		To(BeComparableTo(ptr.To(labelled(prefix+"to-alias-s-tcp-5678", "allowed"))))
	s.Expect(s.policy(s.A, "egress-to-s-tcp-5678").Spec.PodSelector).To(BeComparableTo(labelled(prefix+"to-s-tcp-5678", "allowed")))
}

func via(alias string, ports ...string) []string {
	var names []string
	for _, port := range ports {
		names = append(names, "a/ingress-to-s-"+port+"-via-"+alias, "a/egress-to-s-"+port+"-via-"+alias)
	}
	return names
}

func TestAllowedPortsAnnotationGetsPolicies(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	service := s.service(map[string]string{
		prefix + "from-x-allowed-ports": `[{"protocol":"UDP","port":"testport2"},{"protocol":"TCP","port":3456}]`,
	})
	s.awaits(own(), via("x", "udp-testport2", "tcp-3456"))
	s.Expect(s.policy(s.A, "egress-to-s-tcp-3456-via-x").Spec).To(BeComparableTo(networkingv1.NetworkPolicySpec{
		PodSelector: labelled(prefix+"to-x", "allowed"), PolicyTypes: []networkingv1.PolicyType{"Egress"},
		Egress: []networkingv1.NetworkPolicyEgressRule{{
			Ports: portOf("TCP", intstr.FromInt32(3456)), To: []networkingv1.NetworkPolicyPeer{{PodSelector: ptr.To(labelled("foo", "bar"))}},
		}},
	}))
	s.annotate(service, prefix+"from-y-allowed-ports", `[{"protocol":"TCP","port":1}]`)
	s.awaits(own(), via("x", "udp-testport2", "tcp-3456"), via("y", "tcp-1"))
	s.annotate(service, prefix+"from-x-allowed-ports", `[{"protocol":"TCP","port":3456}]`)
	s.awaits(own(), via("x", "tcp-3456"), via("y", "tcp-1"))
	s.change(service, func() { delete(service.Annotations, prefix+"from-y-allowed-ports") })
	s.awaits(own(), via("x", "tcp-3456"))
}

func TestDeprecatedAnnotationPairGetsPolicies(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	service := s.service(map[string]string{
		pairAlias: "custom-selector", pairPorts: `[{"protocol":"UDP","port":"testport2"},{"protocol":"TCP","port":3456}]`,
	})
	s.awaits(own(), via("custom-selector", "udp-testport2", "tcp-3456"))
	s.Expect(s.policy(s.A, "egress-to-s-tcp-3456-via-custom-selector").Spec.PodSelector).
		To(BeComparableTo(labelled(prefix+"to-custom-selector", "allowed")))
	for _, key := range []string{pairAlias, pairPorts} {
		value := service.Annotations[key]
		s.change(service, func() { delete(service.Annotations, key) })
		s.awaits(own())
		s.annotate(service, key, value)
		s.awaits(own(), via("custom-selector", "udp-testport2", "tcp-3456"))
	}
}

func TestFromWorldAnnotationAllowsAllAddresses(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	service := s.service(map[string]string{fromWorld: `[{"protocol":"TCP","port":5678},{"protocol":"UDP","port":"testport"}]`})
	world := []string{"a/ingress-to-s-from-world"}
	s.awaits(own(), world)
	spec := networkingv1.NetworkPolicySpec{
		PodSelector: labelled("foo", "bar"), PolicyTypes: []networkingv1.PolicyType{"Ingress"},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{
			Ports: slices.Concat(portOf("TCP", intstr.FromInt32(5678)), portOf("UDP", intstr.FromString("testport"))),
		}},
	}
	policy := s.policy(s.A, "ingress-to-s-from-world")
	s.Expect(policy.Spec).To(BeComparableTo(spec))
	s.Expect(policy.Annotations[description]).
		To(Equal("Allows ingress traffic from everywhere to ports [TCP/5678 UDP/testport] for pods selected by the " + s.A +
			"/s service selector."))
	s.annotate(service, fromWorld, "[]")
	spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
	s.Eventually(func() networkingv1.NetworkPolicySpec { return s.policy(s.A, "ingress-to-s-from-world").Spec }).WithTimeout(binary.Patience).
		Should(BeComparableTo(spec))
	s.change(service, func() { delete(service.Annotations, fromWorld) })
	s.awaits(own())
}

func (s *scene) ingress(backend networkingv1.ServiceBackendPort) *networkingv1.Ingress {
	s.T.Helper()
	ingress := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.A, Name: "i"},
		Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{
					{
						Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix),
						Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "s", Port: backend}},
					},
				},
			}},
		}}},
	}
	s.create(ingress)
	return ingress
}

func TestIngressesGetPoliciesForTheIngressController(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{ingresses: true})
	home := s.namespace("ingress", nil)
	service := s.service(nil)
	ingress := s.ingress(networkingv1.ServiceBackendPort{Number: 1234})
	from := []string{"a/ingress-to-s-tcp-5678-from-ingress-controller", "ingress/egress-to-a-s-tcp-5678-from-ingress-controller"}
	s.awaits(own(), from)
	s.Expect(s.policy(home, "egress-to-"+s.A+"-s-tcp-5678-from-ingress-controller").Spec).To(BeComparableTo(networkingv1.NetworkPolicySpec{
		PodSelector: labelled("app", "nginx"), PolicyTypes: []networkingv1.PolicyType{"Egress"},
		Egress: []networkingv1.NetworkPolicyEgressRule{{Ports: portOf("TCP", intstr.FromInt32(5678)), To: []networkingv1.NetworkPolicyPeer{{
			PodSelector: ptr.To(labelled("foo", "bar")), NamespaceSelector: ptr.To(labelled("kubernetes.io/metadata.name", s.A)),
		}}}},
	}))
	s.Expect(s.policy(s.A, "ingress-to-s-tcp-5678-from-ingress-controller").Annotations[description]).To(Equal(
		"Allows ingress TCP traffic to port 5678 for pods selected by the " + s.A +
			"/s service selector from ingress controller pods running in the " + home + " namespace labeled with map[app:nginx]."))

	s.Expect(s.Target.Delete(s.Ctx, ingress)).To(Succeed())
	s.awaits(own())
	s.ingress(networkingv1.ServiceBackendPort{Name: "one"})
	s.awaits(own(), from)
	s.change(service, func() { service.Spec.Ports[0].TargetPort = intstr.FromInt32(99) })
	renamed := []string{
		"a/egress-to-s-tcp-99", "a/egress-to-s-udp-testport", "a/ingress-to-s-tcp-99", "a/ingress-to-s-udp-testport",
		"a/ingress-to-s-tcp-99-from-ingress-controller", "ingress/egress-to-a-s-tcp-99-from-ingress-controller",
	}
	s.awaits(renamed)
	s.change(service, func() { service.Spec.Selector = nil })
	s.awaits()
	s.change(service, func() { service.Spec.Selector = map[string]string{"foo": "bar"} })
	s.awaits(renamed)
	s.Expect(s.Target.Delete(s.Ctx, service)).To(Succeed())
	s.awaits()
}

func TestChangeOfTheDefaultBackendAloneMovesThePolicies(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{ingresses: true})
	s.namespace("ingress", nil)
	s.service(nil)
	backend := func(name string) *networkingv1.IngressBackend {
		return &networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: name, Port: networkingv1.ServiceBackendPort{Number: 1234}},
		}
	}
	ingress := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.A, Name: "i"}, Spec: networkingv1.IngressSpec{DefaultBackend: backend("other")},
	}
	s.create(ingress)
	s.awaits(own())
	s.change(ingress, func() { ingress.Spec.DefaultBackend = backend("s") })
	s.awaits(own(), []string{
		"a/ingress-to-s-tcp-5678-from-ingress-controller", "ingress/egress-to-a-s-tcp-5678-from-ingress-controller",
	})
	s.change(ingress, func() { ingress.Spec.DefaultBackend = backend("other") })
	s.awaits(own())
}

func TestManualChangesAreRepaired(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakeClock(time.Now())
	s := newScene(t, setting{clock: now})
	s.service(nil)
	s.awaits(own())
	before := s.policy(s.A, "ingress-to-s-tcp-5678")
	restored := func() {
		s.T.Helper()
		s.Eventually(func() *networkingv1.NetworkPolicy {
			if !slices.Equal(s.names(s.Ctx), own()) {
				return nil
			}
			return s.policy(s.A, "ingress-to-s-tcp-5678")
		}).WithTimeout(binary.Patience).Should(BeComparableTo(before))
	}
	policy := before.DeepCopy()
	for name, change := range map[string]func(){
		"another rule": func() { policy.Spec.Ingress[0].Ports = nil },
		"a second direction": func() {
			policy.Spec.PolicyTypes, policy.Spec.Egress = []networkingv1.PolicyType{"Ingress", "Egress"}, []networkingv1.NetworkPolicyEgressRule{{}}
		},
		"one more label selected": func() { policy.Spec.PodSelector.MatchLabels["more"] = "x" },
		"no annotations":          func() { policy.Annotations = nil },
		"no labels":               func() { policy.Labels = nil },
		"one label missing":       func() { delete(policy.Labels, prefix+"service-name") },
		"the labels of another":   func() { policy.Labels[prefix+"service-name"] = "t" },
	} {
		t.Log(name)
		now.Step(2 * time.Minute) // so that repairs do not pause
		s.change(policy, change)
		s.settled() // the policy may be deleted and created again
		restored()
	}
	s.Expect(s.Target.Delete(s.Ctx, before.DeepCopy())).To(Succeed())
	restored()
}

func TestForeignLabelsAndAnnotationsAreKept(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	service := s.service(nil)
	s.awaits(own())
	policy := s.policy(s.A, "ingress-to-s-tcp-5678")
	s.change(policy, func() {
		metav1.SetMetaDataLabel(&policy.ObjectMeta, "foreign", "label")
		metav1.SetMetaDataAnnotation(&policy.ObjectMeta, "foreign", "annotation")
	})
	s.change(service, func() { service.Spec.Selector = map[string]string{"foo": "baz"} })
	s.Eventually(func() metav1.LabelSelector { return s.policy(s.A, policy.Name).Spec.PodSelector }).WithTimeout(binary.Patience).
		Should(BeComparableTo(labelled("foo", "baz")))
	after := s.policy(s.A, policy.Name)
	s.Expect(after.Labels).To(HaveKeyWithValue("foreign", "label"))
	s.Expect(after.Annotations).To(HaveKeyWithValue("foreign", "annotation"))
}

func TestUnrelatedChangesOfServicesCauseNoRequest(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	service := s.service(map[string]string{"some": "thing"})
	s.awaits(own())
	s.settled()
	s.Requests.Reset()
	s.change(service, func() {
		service.Labels = map[string]string{"unrelated": "label"}
		service.Annotations["some"] = "thing else"
	})
	s.change(service, func() { service.Spec.SessionAffinity = corev1.ServiceAffinityClientIP })
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	_ = s.Target.Status().Update(s.Ctx, service)
	s.Expect(s.settled()).To(BeEmpty())
}
