package desired_test

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/espalier-dev/espalier/internal/networkpolicy/desired"
)

const prefix = "networking.resources.gardener.cloud/"

func service(annotations map[string]string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", Annotations: annotations},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"foo": "bar"}, Ports: ports},
	}
}

func port(protocol corev1.Protocol, number int32, target intstr.IntOrString) corev1.ServicePort {
	return corev1.ServicePort{Protocol: protocol, Port: number, TargetPort: target}
}

// names returns the names of all policies for clients in the given namespaces.
func names(service *corev1.Service, clients ...string) []string {
	exposure, _ := desired.Read(service)
	build := desired.NewBuild(exposure)
	for _, client := range clients {
		build.Clients(client)
	}
	build.World()
	var found []string
	for _, policy := range build.Set().Policies {
		found = append(found, policy.Namespace+"/"+policy.Name)
	}
	return found
}

func TestNames(t *testing.T) {
	for name, tc := range map[string]struct {
		service *corev1.Service
		clients []string
		want    []string
	}{
		"a port without a target leads to its own number, one without protocol is TCP": {
			service: service(nil, port("", 80, intstr.IntOrString{})), clients: []string{"ns"},
			want: []string{"ns/ingress-to-s-tcp-80", "ns/egress-to-s-tcp-80"},
		},
		"two ports with one target have one pair": {
			service: service(nil, port("TCP", 80, intstr.FromInt32(8080)), port("TCP", 81, intstr.FromInt32(8080))), clients: []string{"ns"},
			want: []string{"ns/ingress-to-s-tcp-8080", "ns/egress-to-s-tcp-8080"},
		},
		"clients elsewhere": {
			service: service(nil, port("SCTP", 80, intstr.FromString("http"))), clients: []string{"other"},
			want: []string{"ns/ingress-to-s-sctp-http-from-other", "other/egress-to-ns-s-sctp-http"},
		},
		"all aliases, sorted, after the deprecated pair": {
			service: service(map[string]string{
				prefix + "from-b-allowed-ports": `[{"port":"2"}]`, prefix + "from-a-allowed-ports": `[{"port":1}]`,
				prefix + "from-policy-allowed-ports": `[{"port":3}]`, prefix + "from-policy-pod-label-selector": "c",
			}), clients: []string{"ns"},
			want: []string{
				"ns/ingress-to-s-tcp-3-via-c", "ns/egress-to-s-tcp-3-via-c", "ns/ingress-to-s-tcp-1-via-a", "ns/egress-to-s-tcp-1-via-a",
				"ns/ingress-to-s-tcp-2-via-b", "ns/egress-to-s-tcp-2-via-b",
			},
		},
		"every client": {
			service: service(map[string]string{prefix + "from-world-to-ports": "[]"}), want: []string{"ns/ingress-to-s-from-world"},
		},
		"keys that only look alike": {
			service: service(map[string]string{
				prefix + "from-x-allowed-ports-more": `[{"port":1}]`, "example.com/from-x-allowed-ports": `[{"port":1}]`,
				prefix + "not-from-x-allowed-ports": `[{"port":1}]`, prefix + "from-policy-allowed-ports": `[{"port":3}]`,
			}), clients: []string{"ns"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(names(tc.service, tc.clients...)).To(Equal(tc.want))
		})
	}
}

func TestFaults(t *testing.T) {
	for name, tc := range map[string]struct{ key, value, want string }{
		"no JSON":                  {"namespace-selectors", "x", `failed unmarshaling "x": invalid character 'x' looking for beginning of value`},
		"no list":                  {"namespace-selectors", "{}", "json: cannot unmarshal object"},
		"no text":                  {"namespace-selectors", "", "it is empty"},
		"null":                     {"from-x-allowed-ports", "null", "null is not a list"},
		"null in the list":         {"from-x-allowed-ports", "[null]", "[0] is null"},
		"two lists":                {"from-x-allowed-ports", "[] []", "something follows after the list"},
		"a misspelt field":         {"namespace-selectors", `[{"matchLabel":{"a":"b"}}]`, `unknown field "matchLabel"`},
		"a key that is none":       {"namespace-selectors", `[{"matchLabels":{"a b":"c"}}]`, "failed parsing"},
		"an operator that is none": {"namespace-selectors", `[{"matchExpressions":[{"key":"a","operator":"In"}]}]`, "failed parsing"},
		"a protocol that is none":  {"from-x-allowed-ports", `[{"port":1,"protocol":"tcp"}]`, `[0]: protocol "tcp" is none of TCP, UDP, SCTP`},
		"no port":                  {"from-x-allowed-ports", `[{"protocol":"TCP"}]`, "[0]: port is missing"},
		"port 0":                   {"from-x-allowed-ports", `[{"port":0}]`, `[0]: port "0": must be between 1 and 65535, inclusive`},
		"a port too large":         {"from-x-allowed-ports", `[{"port":"99999999999"}]`, `[0]: port "99999999999" is out of range`},
		"a port name too long": {
			"from-x-allowed-ports", `[{"port":"sixteen-letters-x"}]`, `[0]: port "sixteen-letters-x": must be no more than 15 characters`,
		},
		"an empty port name":     {"from-x-allowed-ports", `[{"port":""}]`, `[0]: port "": `},
		"an end before the port": {"from-x-allowed-ports", `[{"port":5,"endPort":4}]`, "[0]: endPort 4 must be a port number not below port"},
		"an end of a name": {
			"from-x-allowed-ports", `[{"port":"http","endPort":4}]`, "[0]: endPort 4 must be a port number not below port",
		},
		"two ends of one port": {
			"from-x-allowed-ports", `[{"port":5},{"port":5,"endPort":6}]`, "[1]: port TCP/5 is listed before with another endPort",
		},
		"an alias with capitals":   {"from-X-allowed-ports", `[]`, `"X" cannot be a part of a policy's name`},
		"an alias without letters": {"from--allowed-ports", `[]`, `"" cannot be a part of a policy's name`},
		"a namespace alias":        {"pod-label-selector-namespace-alias", "a/b", `"a/b" cannot be a part of a label's key`},
	} {
		t.Run(name, func(t *testing.T) {
			_, faults := desired.Read(service(map[string]string{prefix + tc.key: tc.value}))
			g := NewWithT(t)
			g.Expect(faults).To(HaveLen(1))
			g.Expect(faults[0].Annotation).To(Equal(prefix + tc.key))
			g.Expect(faults[0].Problem).To(ContainSubstring(tc.want))
			g.Expect(faults[0].Remedy).NotTo(BeEmpty())
		})
	}
}

func TestFaultForAllClientsIsNoFaultForOthers(t *testing.T) {
	g := NewWithT(t)
	exposure, faults := desired.Read(service(map[string]string{prefix + "from-world-to-ports": "x"}))
	g.Expect(faults).To(BeEmpty())
	g.Expect(exposure.WorldFault.Annotation).To(Equal(prefix + "from-world-to-ports"))
	build := desired.NewBuild(exposure)
	name, keep := build.Keep()
	g.Expect(keep).To(BeTrue())
	g.Expect(name.String()).To(Equal("ns/ingress-to-s-from-world"))
}

func TestSelects(t *testing.T) {
	g := NewWithT(t)
	exposure, _ := desired.Read(service(map[string]string{
		prefix + "namespace-selectors": `[{"matchLabels":{"a":"b"}},{"matchExpressions":[{"key":"c","operator":"Exists"}]}]`,
	}))
	g.Expect(exposure.Selects(labels.Set{"a": "b"})).To(BeTrue())
	g.Expect(exposure.Selects(labels.Set{"c": ""})).To(BeTrue())
	g.Expect(exposure.Selects(labels.Set{"a": "x"})).To(BeFalse())
	everything, _ := desired.Read(service(map[string]string{prefix + "namespace-selectors": `[{}]`}))
	g.Expect(everything.Selects(labels.Set{})).To(BeTrue())
	nothing, _ := desired.Read(service(nil))
	g.Expect(nothing.Selects(labels.Set{"a": "b"})).To(BeFalse())
}

func ingressTo(name string, port networkingv1.ServiceBackendPort) networkingv1.Ingress {
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: name, Port: port}}
	return networkingv1.Ingress{Spec: networkingv1.IngressSpec{
		DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "default"}},
		Rules: []networkingv1.IngressRule{{}, {IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{{Backend: backend}, {}, {Backend: backend}},
		}}}},
	}}
}

func TestIngresses(t *testing.T) {
	unnamed := service(nil, port("TCP", 80, intstr.FromInt32(8080)), port("TCP", 81, intstr.FromInt32(8081)))
	namedPort := service(nil, corev1.ServicePort{Name: "http", Port: 80, Protocol: "TCP", TargetPort: intstr.FromInt32(8080)})
	for name, tc := range map[string]struct {
		service *corev1.Service
		ingress networkingv1.Ingress
		home    string
		want    []string
	}{
		"by number, although both names are empty": {
			unnamed, ingressTo("s", networkingv1.ServiceBackendPort{Number: 81}), "lb",
			[]string{"ns/ingress-to-s-tcp-8081-from-ingress-controller", "lb/egress-to-ns-s-tcp-8081-from-ingress-controller"},
		},
		"by name": {
			namedPort, ingressTo("s", networkingv1.ServiceBackendPort{Name: "http"}), "lb",
			[]string{"ns/ingress-to-s-tcp-8080-from-ingress-controller", "lb/egress-to-ns-s-tcp-8080-from-ingress-controller"},
		},
		"in the Service's namespace": {
			namedPort, ingressTo("s", networkingv1.ServiceBackendPort{Number: 80}), "ns",
			[]string{"ns/ingress-to-s-tcp-8080-from-ingress-controller", "ns/egress-to-s-tcp-8080-from-ingress-controller"},
		},
		"as default backend": {
			namedPort,
			networkingv1.Ingress{Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
				Service: &networkingv1.IngressServiceBackend{Name: "s", Port: networkingv1.ServiceBackendPort{Name: "http"}},
			}}},
			"lb",
			[]string{"ns/ingress-to-s-tcp-8080-from-ingress-controller", "lb/egress-to-ns-s-tcp-8080-from-ingress-controller"},
		},
		"a default backend that is no Service": {
			namedPort, networkingv1.Ingress{Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
				Resource: &corev1.TypedLocalObjectReference{Kind: "Bucket", Name: "s"},
			}}}, "lb", nil,
		},
		"a port that the Service does not have": {namedPort, ingressTo("s", networkingv1.ServiceBackendPort{Number: 99}), "lb", nil},
		"another Service":                       {namedPort, ingressTo("t", networkingv1.ServiceBackendPort{Number: 80}), "lb", nil},
	} {
		t.Run(name, func(t *testing.T) {
			exposure, _ := desired.Read(tc.service)
			build := desired.NewBuild(exposure)
			build.Ingresses(tc.service, []networkingv1.Ingress{tc.ingress}, desired.IngressController{Namespace: tc.home})
			var found []string
			for _, policy := range build.Set().Policies {
				found = append(found, policy.Namespace+"/"+policy.Name)
			}
			NewWithT(t).Expect(found).To(Equal(tc.want))
		})
	}
	ingress := ingressTo("s", networkingv1.ServiceBackendPort{Number: 80})
	NewWithT(t).Expect(desired.Backends(&ingress)).To(Equal(sets.New("s", "default")))
}

func TestOneNameForDifferentTrafficIsAClash(t *testing.T) {
	g, tcp := NewWithT(t), service(nil, port("TCP", 80, intstr.FromInt32(8080)))
	exposure, _ := desired.Read(tcp)
	build := desired.NewBuild(exposure)
	build.Clients("ingress-controller")
	build.Ingresses(tcp, []networkingv1.Ingress{
		ingressTo("s", networkingv1.ServiceBackendPort{Number: 80}),
	}, desired.IngressController{Namespace: "ingress-controller"})
	build.Clients("ingress-controller")
	g.Expect(build.Set().Clashes).To(HaveLen(1))
	g.Expect(build.Set().Clashes[0].String()).To(Equal("ns/ingress-to-s-tcp-8080-from-ingress-controller"))
}

func TestDescriptionOfSelectorsAndRanges(t *testing.T) {
	g := NewWithT(t)
	exposure, _ := desired.Read(service(map[string]string{prefix + "from-world-to-ports": `[{"port":"80","endPort":90},{"protocol":"UDP"}]`}))
	build := desired.NewBuild(exposure)
	build.World()
	g.Expect(build.Set().Policies[0].Annotations).To(Equal(map[string]string{
		"gardener.cloud/description": "Allows ingress traffic from everywhere to ports [TCP/80-90 UDP] for pods selected by the ns/s " +
			"service selector.",
	}))
}

// FuzzExposure: for any annotations, all policies have names and keys that the API server accepts, or there is a fault. Nothing panics.
func FuzzExposure(f *testing.F) {
	f.Add("namespace-selectors", `[{"matchLabels":{"a":"b"}}]`, "alias")
	f.Add("from-x-allowed-ports", `[{"port":"10250","protocol":"TCP","endPort":10251}]`, "")
	f.Add("from-world-to-ports", `[]`, strings.Repeat("l", 300))
	f.Add("from-policy-allowed-ports", `[{"port":1}]`, "a.b")
	f.Add("pod-label-selector-namespace-alias", `a b`, "-")
	f.Fuzz(func(t *testing.T, key, value, alias string) {
		exposure, faults := desired.Read(service(map[string]string{prefix + key: value, prefix + "from-policy-pod-label-selector": alias},
			port("TCP", 80, intstr.FromInt32(80))))
		if len(faults) > 0 {
			return
		}
		build := desired.NewBuild(exposure)
		build.Clients("ns")
		build.Clients("other")
		build.World()
		for _, policy := range build.Set().Policies {
			checkName(t, policy)
		}
	})
}

func checkName(t *testing.T, policy *networkingv1.NetworkPolicy) {
	t.Helper()
	problems := validation.IsDNS1123Subdomain(policy.Name)
	for key := range policy.Spec.PodSelector.MatchLabels {
		problems = slices.Concat(problems, validation.IsQualifiedName(key))
	}
	if len(problems) > 0 {
		t.Errorf("policy %q: %v", policy.Name, problems)
	}
}
