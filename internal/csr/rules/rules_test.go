package rules

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/config"
)

// request returns a valid request of node n.
func request(changes ...func(*Request)) Request {
	r := Request{
		Username: "system:node:n", CommonName: "system:node:n", Organization: []string{"system:nodes"},
		DNSNames: []string{"n"}, IPs: []netip.Addr{netip.MustParseAddr("10.1.2.3")},
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func named(names ...string) func(*Request) { return func(r *Request) { r.DNSNames = names } }

func at(ips ...string) func(*Request) {
	return func(r *Request) {
		r.IPs = nil
		for _, ip := range ips {
			r.IPs = append(r.IPs, netip.MustParseAddr(ip))
		}
	}
}

func lasting(d time.Duration) func(*Request) { return func(r *Request) { r.Expiration = d } }

func lasts(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func denyAPIServer() config.EspalierCSRApprover {
	return config.EspalierCSRApprover{DeniedIdentities: config.EspalierCSRDeniedIdentities{APIServer: true}}
}

func prefixes(t *testing.T, texts ...string) []netip.Prefix {
	t.Helper()
	p, err := Prefixes(texts)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return p
}

func TestJudgeRequest(t *testing.T) {
	passed := Verdict{Outcome: "approve", Reason: Passed, Message: "all checks passed"}
	deny := func(reason Reason, message string) Verdict {
		return Verdict{Outcome: "deny", Reason: reason, Message: message}
	}
	hour := Rules{Own: config.EspalierCSRApprover{MaxExpiration: lasts(time.Hour)}}
	mayBeUnset := Rules{Own: config.EspalierCSRApprover{MaxExpiration: lasts(time.Hour), AllowUnsetExpiration: true}}
	patterns, none := Patterns([]string{"ip-*.nodes.example.com", "n"}), []Pattern{}
	ten, nowhere := prefixes(t, "10.0.0.0/8", "2001:db8::/32"), []netip.Prefix{}
	identities := Rules{Own: denyAPIServer(), DeniedDNS: Patterns([]string{"*.svc", "etcd"}), DeniedIPs: ten}
	long := strings.Repeat("x", 300)
	for name, tc := range map[string]struct {
		rules   Rules
		request Request
		want    Verdict
	}{
		"nothing to object to": {request: request(), want: passed},
		"a user without prefix": {
			request: request(func(r *Request) { r.Username = `a"b` }),
			want:    deny(Username, `username "a\"b" is not prefixed with "system:node:"`),
		},
		"no names":   {request: request(named(), at()), want: deny(NoNames, "no DNS names or IP addresses in the SANs found")},
		"only an IP": {request: request(named()), want: passed},
		"another common name": {
			request: request(func(r *Request) { r.CommonName = "n" }), want: deny(CommonName, "common name in CSR does not match username"),
		},
		"twice the organization": {
			request: request(func(r *Request) { r.Organization = []string{"system:nodes", "system:nodes"} }),
			want:    deny(Organization, "organization in CSR does not match nodes group"),
		},

		"any lifetime, where none is set": {request: request(lasting(1e6 * time.Hour)), want: passed},
		"as long as allowed":              {rules: hour, request: request(lasting(time.Hour)), want: passed},
		"longer": {
			rules: hour, request: request(lasting(time.Hour + time.Second)),
			want: deny(Expiration, "requested expiration of 1h0m1s is longer than the allowed 1h0m0s"),
		},
		"no lifetime": {
			rules: hour, request: request(), want: deny(Expiration, "no expiration is requested, at most 1h0m0s is allowed"),
		},
		"no lifetime, which is allowed": {rules: mayBeUnset, request: request(), want: passed},
		"longer, where unset is allowed": {
			rules: mayBeUnset, request: request(lasting(2 * time.Hour)),
			want: deny(Expiration, "requested expiration of 2h0m0s is longer than the allowed 1h0m0s"),
		},
		"names that are allowed": {
			rules: Rules{AllowedDNS: &patterns}, request: request(named("n", "IP-10.nodes.example.com.")), want: passed,
		},
		"a name that is not": {
			rules: Rules{AllowedDNS: &patterns}, request: request(named("n", "m")),
			want: deny(DNSPattern, `DNS name "m" matches none of the allowed patterns`),
		},
		"a * is one label": {
			rules: Rules{AllowedDNS: &patterns}, request: request(named("ip-1.b.nodes.example.com")),
			want: deny(DNSPattern, `DNS name "ip-1.b.nodes.example.com" matches none of the allowed patterns`),
		},
		"a wildcard is never allowed": {
			rules: Rules{AllowedDNS: &patterns}, request: request(named("ip-*.nodes.example.com")),
			want: deny(DNSPattern, `DNS name "ip-*.nodes.example.com" matches none of the allowed patterns`),
		},
		"no name is allowed": {
			rules: Rules{AllowedDNS: &none}, request: request(), want: deny(DNSPattern, `DNS name "n" matches none of the allowed patterns`),
		},
		"no name is allowed, none is asked": {rules: Rules{AllowedDNS: &none}, request: request(named()), want: passed},
		"a long name is cut": {
			rules: Rules{AllowedDNS: &none}, request: request(named(long)),
			want: deny(DNSPattern, `DNS name "`+long[:253]+`"… matches none of the allowed patterns`),
		},
		"addresses that are allowed": {
			rules: Rules{AllowedIPs: &ten}, request: request(at("10.255.255.255", "2001:db8:1::1")), want: passed,
		},
		"an address that is not": {
			rules: Rules{AllowedIPs: &ten}, request: request(at("10.0.0.1", "11.0.0.1")),
			want: deny(IPPrefix, `IP address "11.0.0.1" is in none of the allowed prefixes`),
		},
		"no address is allowed": {
			rules: Rules{AllowedIPs: &nowhere}, request: request(),
			want: deny(IPPrefix, `IP address "10.1.2.3" is in none of the allowed prefixes`),
		},

		"the API server's short name": {
			rules: identities, request: request(named("kubernetes"), at()),
			want: deny(DeniedIdentity, `DNS name "kubernetes" is or covers an identity that is denied to nodes`),
		},
		"its name in any domain": {
			rules: identities, request: request(named("Kubernetes.Default.SVC.k8s.example."), at()),
			want: deny(DeniedIdentity, `DNS name "Kubernetes.Default.SVC.k8s.example." is or covers an identity that is denied to nodes`),
		},
		"what covers its name": {
			rules: identities, request: request(named("*.default.svc.cluster.local"), at()),
			want: deny(DeniedIdentity, `DNS name "*.default.svc.cluster.local" is or covers an identity that is denied to nodes`),
		},
		"what only resembles its name": {
			rules: identities, request: request(named("kubernetes.defaults", "kubernetes2", "x.kubernetes"), at()), want: passed,
		},
		"its names, where they are not denied": {request: request(named("kubernetes", "kubernetes.default.svc")), want: passed},
		"a pattern": {
			rules: identities, request: request(named("a.svc"), at()),
			want: deny(DeniedIdentity, `DNS name "a.svc" is or covers an identity that is denied to nodes`),
		},
		"a wildcard that covers a pattern": {
			rules: identities, request: request(named("*"), at()),
			want: deny(DeniedIdentity, `DNS name "*" is or covers an identity that is denied to nodes`),
		},
		"a wildcard within a label": {
			rules: identities, request: request(named("kube*.default.svc"), at()),
			want: deny(DeniedIdentity, `DNS name "kube*.default.svc" is or covers an identity that is denied to nodes`),
		},
		"the same for any rule that denies": {
			rules: Rules{DeniedIPs: ten}, request: request(named("a.b*"), at()),
			want: deny(DeniedIdentity, `DNS name "a.b*" is or covers an identity that is denied to nodes`),
		},
		"the same, where nothing is denied": {request: request(named("kube*.default.svc"), at()), want: passed},
		"an address as DNS name": {
			rules: identities, request: request(named("10.1.2.3."), at()),
			want: deny(DeniedIdentity, `DNS name "10.1.2.3." is or covers an identity that is denied to nodes`),
		},
		"an address as DNS name, as IPv6": {
			rules: identities, request: request(named("::ffff:10.1.2.3"), at()),
			want: deny(DeniedIdentity, `DNS name "::ffff:10.1.2.3" is or covers an identity that is denied to nodes`),
		},
		"an address as DNS name, with a zone": {
			rules: identities, request: request(named("2001:db8::1%eth0"), at()),
			want: deny(DeniedIdentity, `DNS name "2001:db8::1%eth0" is or covers an identity that is denied to nodes`),
		},
		"an allowed address as DNS name": {rules: Rules{AllowedIPs: &ten}, request: request(named("10.0.0.1")), want: passed},
		"one that is not allowed": {
			rules: Rules{AllowedIPs: &ten}, request: request(named("11.0.0.1")),
			want: deny(IPPrefix, `DNS name "11.0.0.1" is an IP address in none of the allowed prefixes`),
		},
		"an address of another component": {
			rules: identities, request: request(),
			want: deny(DeniedIdentity, `IP address "10.1.2.3" is an identity that is denied to nodes`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(tc.rules.JudgeRequest(tc.request)).To(Equal(tc.want))
		})
	}
}

func TestJudgeObjects(t *testing.T) {
	home := []corev1.NodeAddress{{Type: "Hostname", Address: "n"}, {Type: "InternalIP", Address: "10.1.2.3"}}
	passed := Verdict{Outcome: "approve", Reason: Passed, Message: "all checks passed"}
	noNode := Verdict{Outcome: "deny", Reason: NodeMissing, Message: `could not find node object with name "n"`}
	noMachine := Verdict{
		Outcome: "deny", Reason: MachineCount, Message: `Expected exactly one machine in namespace "m" for node "n" but found 0`,
	}
	twoMachines := Verdict{
		Outcome: "deny", Reason: MachineCount, Message: `Expected exactly one machine in namespace "m" for node "n" but found 2`,
	}
	waiting := func(v Verdict) Verdict { v.Outcome = "wait"; return v }
	inM := config.KubeletCSRApproverController{MachineNamespace: "m"}
	patient := Rules{Config: inM, Own: config.EspalierCSRApprover{WaitForObjects: lasts(time.Minute)}}
	strict := Rules{Config: inM}
	withoutMachines := Rules{Own: config.EspalierCSRApprover{WithoutMachines: true}}
	subset := Rules{Own: config.EspalierCSRApprover{SubsetOfAddresses: true}}
	ips := Verdict{
		Outcome: "deny", Reason: IPAddresses,
		Message: "IP addresses in CSR do not match addresses of type 'InternalIP' or 'ExternalIP' in node object",
	}
	dnsNames := Verdict{
		Outcome: "deny", Reason: DNSNames,
		Message: "DNS names in CSR do not match addresses of type 'Hostname' or 'InternalDNS' or 'ExternalDNS' in node object",
	}
	for name, tc := range map[string]struct {
		rules   Rules
		request Request
		objects Objects
		age     time.Duration
		want    Verdict
	}{
		"all is there":                 {strict, request(), Objects{NodeExists: true, Addresses: home, Machines: 1}, 0, passed},
		"no node":                      {strict, request(), Objects{Machines: 1}, 0, noNode},
		"no node yet":                  {patient, request(), Objects{}, 59 * time.Second, waiting(noNode)},
		"no node, and time is over":    {patient, request(), Objects{}, time.Minute, noNode},
		"no machine":                   {strict, request(), Objects{NodeExists: true, Addresses: home}, 0, noMachine},
		"no machine yet":               {patient, request(), Objects{NodeExists: true, Addresses: home}, 59 * time.Second, waiting(noMachine)},
		"no machine, and time is over": {patient, request(), Objects{NodeExists: true, Addresses: home}, time.Minute, noMachine},
		"two machines never wait":      {patient, request(), Objects{NodeExists: true, Addresses: home, Machines: 2}, 0, twoMachines},
		"machines do not matter":       {withoutMachines, request(), Objects{NodeExists: true, Addresses: home}, 0, passed},
		"an address as IPv6": {
			strict, request(),
			Objects{
				NodeExists: true,
				Addresses:  []corev1.NodeAddress{{Type: "Hostname", Address: "n"}, {Type: "ExternalIP", Address: "::ffff:10.1.2.3"}}, Machines: 1,
			},
			0, passed,
		},
		"an address with a zone": {
			strict, request(named(), at("fe80::1")),
			Objects{NodeExists: true, Addresses: []corev1.NodeAddress{{Type: "InternalIP", Address: "fe80::1%eth0"}}, Machines: 1},
			0, ips,
		},
		"addresses that the kubelet leaves out": {
			strict, request(),
			Objects{NodeExists: true, Machines: 1, Addresses: append([]corev1.NodeAddress{
				{Type: "Hostname"}, {Type: "InternalDNS"}, {Type: "InternalIP"}, {Type: "ExternalIP"}, {Type: "InternalIP", Address: "fe80::1%eth0"},
			}, home...)},
			0, passed,
		},
		"a hostname that is an IP address": {
			strict, request(named(), at("10.1.2.4")),
			Objects{NodeExists: true, Addresses: []corev1.NodeAddress{{Type: "Hostname", Address: "10.1.2.4"}}, Machines: 1},
			0, passed,
		},
		"addresses with leading zeros": {
			strict, request(named(), at("10.1.2.3", "10.1.2.4")),
			Objects{NodeExists: true, Addresses: []corev1.NodeAddress{
				{Type: "Hostname", Address: "010.001.002.004"}, {Type: "InternalIP", Address: "10.1.2.03"},
			}, Machines: 1},
			0, passed,
		},
		"a hostname that is an IP address is no DNS name": {
			strict, request(named("10.1.2.4"), at()),
			Objects{NodeExists: true, Addresses: []corev1.NodeAddress{{Type: "Hostname", Address: "10.1.2.4"}}, Machines: 1},
			0, dnsNames,
		},
		"a hostname with a zone is a DNS name": {
			strict, request(named("fe80::1%eth0"), at()),
			Objects{NodeExists: true, Addresses: []corev1.NodeAddress{{Type: "Hostname", Address: "fe80::1%eth0"}}, Machines: 1},
			0, passed,
		},
		"another DNS name that is an IP address": {
			strict, request(named("10.1.2.4"), at()),
			Objects{NodeExists: true, Addresses: []corev1.NodeAddress{{Type: "InternalDNS", Address: "10.1.2.4"}}, Machines: 1},
			0, passed,
		},
		"an unknown type": {
			strict, request(),
			Objects{NodeExists: true, Addresses: append([]corev1.NodeAddress{{Type: "Other", Address: "x"}}, home...), Machines: 1},
			0, passed,
		},
		"fewer, where that is fine": {
			subset, request(named()), Objects{NodeExists: true, Addresses: home, Machines: 1}, 0, passed,
		},
		"more, where fewer is fine": {
			subset, request(at("10.1.2.3", "10.1.2.4")), Objects{NodeExists: true, Addresses: home, Machines: 1}, 0, ips,
		},
		"names are compared exactly": {strict, request(named("N")), Objects{NodeExists: true, Addresses: home, Machines: 1}, 0, dnsNames},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(tc.rules.JudgeObjects(tc.request, tc.objects, tc.age)).To(Equal(tc.want))
		})
	}
}

// A node writes its own addresses. Therefore only a control plane node may get a certificate for an address of the API server.
func TestEndpointsOfTheAPIServerAreGivenToControlPlaneNodesOnly(t *testing.T) {
	passed := Verdict{Outcome: "approve", Reason: Passed, Message: "all checks passed"}
	denied := func(message string) Verdict {
		return Verdict{
			Outcome: "deny", Reason: DeniedIdentity,
			Message: message + " belongs to the API server, and the node has no label node-role.kubernetes.io/control-plane",
		}
	}
	endpoints := Endpoints{Names: Patterns([]string{"api.example.com"}), IPs: prefixes(t, "10.1.2.3/32", "2001:db8::1/128")}
	for name, tc := range map[string]struct {
		request      Request
		controlPlane bool
		endpoints    Endpoints
		want         Verdict
	}{
		"an address": {request: request(), endpoints: endpoints, want: denied(`IP address "10.1.2.3"`)},
		"an address as DNS name": {
			request: request(named("2001:db8::1"), at()), endpoints: endpoints, want: denied(`DNS name "2001:db8::1"`),
		},
		"a name": {
			request: request(named("API.example.com."), at()), endpoints: endpoints, want: denied(`DNS name "API.example.com."`),
		},
		"a wildcard that covers a name": {
			request: request(named("*.example.com"), at()), endpoints: endpoints, want: denied(`DNS name "*.example.com"`),
		},
		"an address of a control plane":    {request: request(), endpoints: endpoints, controlPlane: true, want: passed},
		"an address that is no endpoint":   {request: request(at("10.1.2.4")), endpoints: endpoints, want: passed},
		"where endpoints are not denied":   {request: request(), want: passed},
		"a name of the node with a suffix": {request: request(named("n.api.example.com"), at()), endpoints: endpoints, want: passed},
	} {
		t.Run(name, func(t *testing.T) {
			objects := Objects{NodeExists: true, ControlPlane: tc.controlPlane, APIServer: tc.endpoints}
			for _, each := range tc.request.DNSNames {
				objects.Addresses = append(objects.Addresses, corev1.NodeAddress{Type: "InternalDNS", Address: each})
			}
			for _, each := range tc.request.IPs {
				objects.Addresses = append(objects.Addresses, corev1.NodeAddress{Type: "InternalIP", Address: each.String()})
			}
			r := Rules{Own: config.EspalierCSRApprover{WithoutMachines: true}}
			NewWithT(t).Expect(r.JudgeObjects(tc.request, objects, 0)).To(Equal(tc.want))
		})
	}
}

func TestAllReasonsAreDescribed(t *testing.T) {
	g := NewWithT(t)
	for _, reason := range AllReasons() {
		g.Expect(reason.String()).To(MatchRegexp("^[a-z-]+$"), "reason %d", reason)
		g.Expect(reason.Meaning()).To(HaveSuffix("."), "reason %s", reason)
	}
	g.Expect(Flooding("u")).To(Equal(Verdict{Outcome: "deny", Reason: RateLimit, Message: `too many requests of user "u"`}))
}

func TestPrefixesThatAreNone(t *testing.T) {
	_, err := Prefixes([]string{"10.0.0.1"})
	NewWithT(t).Expect(err).To(MatchError(HavePrefix("read IP prefix: ")))
}

// Addresses in a Node can be as long as the API server allows.
func TestHugeAddressesAreCut(t *testing.T) {
	huge := strings.Repeat("é", 500_000)
	verdict := Rules{}.JudgeObjects(request(), Objects{
		NodeExists: true, Machines: 1, Addresses: []corev1.NodeAddress{{Type: "Hostname", Address: "n"}, {Type: "InternalIP", Address: huge}},
	}, 0)
	g := NewWithT(t)
	g.Expect(verdict.Reason).To(Equal(IPAddresses))
	g.Expect(verdict.Message).
		To(And(HavePrefix(`IP address "é`), HaveSuffix("é…"), ContainSubstring(` in node.Status.Addresses is invalid: ParseAddr("é`)))
	g.Expect(len(verdict.Message)).To(BeNumerically("<", 1024))
}
