package approver_test

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/test/binary"
)

const (
	wrongDNS = "DNS names in CSR do not match addresses of type 'Hostname' or 'InternalDNS' or 'ExternalDNS' in node object"
	wrongIPs = "IP addresses in CSR do not match addresses of type 'InternalIP' or 'ExternalIP' in node object"
)

// everyAddress returns addresses of all types.
func everyAddress() []corev1.NodeAddress {
	return []corev1.NodeAddress{
		{Type: "Hostname", Address: "host-1"},
		{Type: "Hostname", Address: "host-2"},
		{Type: "InternalDNS", Address: "in.example.com"},
		{Type: "ExternalDNS", Address: "out.example.com"},
		{Type: "InternalIP", Address: "10.1.2.3"},
		{Type: "InternalIP", Address: "2001:db8::1"},
		{Type: "ExternalIP", Address: "192.0.2.9"},
	}
}

func everyName(w *wish) {
	w.template.DNSNames = []string{"out.example.com", "host-2", "host-1", "in.example.com"}
	w.template.IPAddresses = []net.IP{net.ParseIP("2001:db8::1"), net.ParseIP("192.0.2.9"), net.ParseIP("10.1.2.3")}
}

func TestRequestWithAllAddressesOfANodeIsApproved(t *testing.T) {
	for name, twoClusters := range map[string]bool{"one cluster": false, "two clusters": true} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, options{twoClusters: twoClusters, before: func(s *scene) { s.node("n", everyAddress()...) }})
			s.expect(s.ask("n", everyName), allPassed)
		})
	}
}

func TestClientCertificatesAreNotDecided(t *testing.T) {
	s := newScene(t, options{twoClusters: true, before: homes("n")}) // the target has no kube-controller-manager, which would approve
	client := func(signer string) func(*wish) {
		return func(w *wish) {
			w.signer, w.usages = signer, []certificatesv1.KeyUsage{"digital signature", "client auth"}
			w.template.DNSNames, w.template.IPAddresses = nil, nil
		}
	}
	foreign := s.ask("n", client("example.com/foreign"))
	api := s.ask("n", client("kubernetes.io/kube-apiserver-client"))
	kubelet := s.ask("n", client("kubernetes.io/kube-apiserver-client-kubelet"))
	for _, each := range []string{api, kubelet, foreign} {
		s.undecided(each)
	}
}

func TestInvalidRequestsAreDeniedForTheFirstReason(t *testing.T) {
	s := newScene(t, options{before: homes("n")})
	organization := func(names ...string) func(*wish) {
		return func(w *wish) { w.template.Subject.Organization = names }
	}
	user := func(name string) func(*wish) {
		return func(w *wish) { w.user, w.groups = name, []string{"system:masters"} }
	}
	noNames := func(w *wish) { w.template.DNSNames, w.template.IPAddresses = nil, nil }
	otherCN := func(w *wish) { w.template.Subject.CommonName = "some-other-name" }
	wrongOrganization := denied("organization in CSR does not match nodes group")
	for name, tc := range map[string]struct {
		changes []func(*wish)
		want    string
	}{
		"not a node": {[]func(*wish){user("alice")}, denied(`username "alice" is not prefixed with "system:node:"`)},
		"almost a node": {
			[]func(*wish){user("system:nodes:n")}, denied(`username "system:nodes:n" is not prefixed with "system:node:"`),
		},
		"no names": {[]func(*wish){noNames}, denied("no DNS names or IP addresses in the SANs found")},
		"only names of other types": {
			[]func(*wish){noNames, func(w *wish) { w.template.EmailAddresses = []string{"n@example.com"} }},
			denied("no DNS names or IP addresses in the SANs found"),
		},
		"another common name": {[]func(*wish){otherCN}, denied("common name in CSR does not match username")},
		"the common name of another node": {
			[]func(*wish){func(w *wish) { w.template.Subject.CommonName = "system:node:another" }},
			denied("common name in CSR does not match username"),
		},
		"no organization":           {[]func(*wish){organization()}, wrongOrganization},
		"two other organizations":   {[]func(*wish){organization("foo", "bar")}, wrongOrganization},
		"another organization":      {[]func(*wish){organization("foo")}, wrongOrganization},
		"one organization too many": {[]func(*wish){organization("system:nodes", "foo")}, wrongOrganization},
		"everything is wrong": {
			[]func(*wish){user("alice"), noNames, otherCN, organization()}, denied(`username "alice" is not prefixed with "system:node:"`),
		},
		"all but the user": {
			[]func(*wish){noNames, otherCN, organization()}, denied("no DNS names or IP addresses in the SANs found"),
		},
		"common name and organization": {[]func(*wish){otherCN, organization()}, denied("common name in CSR does not match username")},
		"organization and addresses": {
			[]func(*wish){organization(), func(w *wish) { w.template.DNSNames = []string{"x"} }}, wrongOrganization,
		},
		"DNS names and addresses, both": {
			[]func(*wish){func(w *wish) { w.template.DNSNames, w.template.IPAddresses = []string{"x"}, []net.IP{{1, 1, 1, 1}} }},
			denied(wrongDNS),
		},
		"neither Node nor Machine": {
			[]func(*wish){func(w *wish) { w.user, w.template.Subject.CommonName = "system:node:ghost", "system:node:ghost" }},
			denied(`could not find node object with name "ghost"`),
		},
	} {
		t.Run(name, func(*testing.T) { s.expect(s.ask("n", tc.changes...), tc.want) })
	}
}

func TestRequestWithoutANodeIsDenied(t *testing.T) {
	s := newScene(t, options{before: func(s *scene) { s.machine(s.Namespace, "n", "n") }})
	s.expect(s.ask("n"), denied(`could not find node object with name "n"`))
}

func TestRequestNeedsExactlyOneMachineInTheNamespace(t *testing.T) {
	s := newScene(t, options{stopped: true})
	elsewhere := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "elsewhere-"}}
	s.Expect(s.Source.Create(s.Ctx, elsewhere)).To(Succeed())
	wrong := func(node, count string) string {
		return denied(`Expected exactly one machine in namespace "` + s.Namespace + `" for node "` + node + `" but found ` + count)
	}
	for _, node := range []string{"none", "two", "foreign", "unlabelled"} {
		s.onlyNode(node, home(node)...)
	}
	s.machine(s.Namespace, "two-1", "two")
	s.machine(s.Namespace, "two-2", "two")
	s.machine(elsewhere.Name, "foreign", "foreign")
	s.machine(s.Namespace, "unlabelled", "")
	s.Start()

	s.expect(s.ask("none"), wrong("none", "0"))
	s.expect(s.ask("two"), wrong("two", "2"))
	s.expect(s.ask("foreign"), wrong("foreign", "0"))
	s.expect(s.ask("unlabelled"), wrong("unlabelled", "0"))
}

// An empty machineNamespace stands for all namespaces that the source connection is restricted to. It does not mean that a cluster without
// Machines is accepted.
func TestAnEmptyMachineNamespaceMeansAllNamespacesOfTheSource(t *testing.T) {
	s := newScene(t, options{stopped: true, configure: func(c *config.ResourceManagerConfiguration) {
		c.Controllers.KubeletCSRApprover.MachineNamespace = ""
		c.SourceClientConnection.Namespaces = nil
	}})
	elsewhere := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "elsewhere-"}}
	s.Expect(s.Source.Create(s.Ctx, elsewhere)).To(Succeed())
	s.onlyNode("everywhere-1", home("everywhere-1")...)
	s.onlyNode("everywhere-2", home("everywhere-2")...)
	s.machine(elsewhere.Name, "m", "everywhere-1")
	s.Start()
	s.expect(s.ask("everywhere-1"), allPassed)
	s.expect(s.ask("everywhere-2"), denied(`Expected exactly one machine in namespace "" for node "everywhere-2" but found 0`))
}

func TestNamesAndAddressesMustMatchTheNode(t *testing.T) {
	ip, dns := corev1.NodeAddress{Type: "InternalIP", Address: "10.1.2.3"}, corev1.NodeAddress{Type: "Hostname", Address: "n"}
	s := newScene(t, options{before: func(s *scene) {
		s.node("no-dns", ip)
		s.node("no-ip", dns)
		s.node("both", dns, ip)
		s.node("long-ipv6", corev1.NodeAddress{Type: "InternalIP", Address: "2001:0DB8:0:0::0001"})
		s.node("invalid", dns, corev1.NodeAddress{Type: "ExternalIP", Address: "10.1.2"})
	}})
	names := func(dns []string, ips ...net.IP) func(*wish) {
		return func(w *wish) { w.template.DNSNames, w.template.IPAddresses = dns, ips }
	}
	n, ten := []string{"n"}, net.IPv4(10, 1, 2, 3)
	for name, tc := range map[string]struct {
		node  string
		names func(*wish)
		want  string
	}{
		"a node without DNS names":           {"no-dns", names(n, ten), denied(wrongDNS)},
		"a node without IPs":                 {"no-ip", names(n, ten), denied(wrongIPs)},
		"a surplus DNS name":                 {"both", names([]string{"n", "surplus"}, ten), denied(wrongDNS)},
		"an IP of the node is missing":       {"both", names(n), denied(wrongIPs)},
		"a surplus IP":                       {"both", names(n, ten, net.IPv4(10, 1, 2, 4)), denied(wrongIPs)},
		"twice the same":                     {"both", names([]string{"n", "n"}, ten, ten), allPassed},
		"no DNS names on either side":        {"no-dns", names(nil, ten), allPassed},
		"no IPs on either side":              {"no-ip", names(n), allPassed},
		"an IPv6 address in another writing": {"long-ipv6", names(nil, net.ParseIP("2001:db8::1")), allPassed},
		"an address that is none": {
			"invalid", names(n, ten),
			denied(`IP address "10.1.2" in node.Status.Addresses is invalid: ParseAddr("10.1.2"): IPv4 address too short`),
		},
	} {
		t.Run(name, func(*testing.T) { s.expect(s.ask(tc.node, tc.names), tc.want) })
	}
}

// touch changes only an annotation of a request.
func (s *scene) touch(name string) {
	s.T.Helper()
	csr := s.get(name)
	csr.Annotations = map[string]string{"touched": "yes"}
	s.Expect(s.Target.Update(s.Ctx, csr)).To(Succeed())
}

func (s *scene) decideAsAdmin(name string, kind certificatesv1.RequestConditionType) {
	s.T.Helper()
	csr := s.get(name)
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: kind, Status: "True", Reason: "ByAnotherClient", Message: "has decided",
	})
	write := s.Target.SubResource("approval")
	if kind == certificatesv1.CertificateFailed {
		write = s.Target.SubResource("status")
	}
	s.Expect(write.Update(s.Ctx, csr)).To(Succeed())
}

func TestDecidedRequestsAreNotChanged(t *testing.T) {
	s := newScene(t, options{stopped: true, twoClusters: true, before: homes("n")})
	approved, refused, failed, signed := s.ask("ghost"), s.ask("n"), s.ask("ghost"), s.ask("n")
	s.decideAsAdmin(approved, "Approved")
	s.decideAsAdmin(refused, "Denied")
	s.decideAsAdmin(failed, "Approved")
	s.decideAsAdmin(failed, "Failed")
	csr := s.get(signed)
	csr.Status.Certificate = s.selfSigned()
	s.Expect(s.Target.Status().Update(s.Ctx, csr)).To(Succeed())

	s.Start()
	for _, each := range []string{approved, refused, failed, signed} {
		s.touch(each)
	}
	s.approvesAnother()
	s.Expect(s.conditions(approved)).To(Equal([]string{"Approved True ByAnotherClient: has decided"}))
	s.Expect(s.conditions(refused)).To(Equal([]string{"Denied True ByAnotherClient: has decided"}))
	s.Expect(s.conditions(failed)).To(Equal([]string{
		"Approved True ByAnotherClient: has decided", "Failed True ByAnotherClient: has decided",
	}))
	s.Expect(s.conditions(signed)).To(BeEmpty())
}

// A request that has only the condition Failed is still undecided.
func TestFailedAloneIsDecided(t *testing.T) {
	s := newScene(t, options{stopped: true, twoClusters: true})
	failed := s.ask("ghost")
	s.decideAsAdmin(failed, "Failed")
	s.Start()
	s.Eventually(func() []string { return s.conditions(failed) }).WithTimeout(binary.Patience).Should(Equal([]string{
		"Failed True ByAnotherClient: has decided", denied(`could not find node object with name "ghost"`),
	}))
}

func (s *scene) selfSigned() []byte {
	s.T.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: clock.RealClock{}.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, s.key.Public(), s.key)
	s.Expect(err).NotTo(HaveOccurred())
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestAPIServerRejectsUnparsableRequests(t *testing.T) {
	s := newScene(t, options{stopped: true})
	for name, raw := range map[string]string{
		"no PEM":                "garbage",
		"another block":         "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		"a block of no PKCS#10": "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.try(s.wish("n", func(w *wish) { w.raw = []byte(raw) }))
			NewWithT(t).Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		})
	}
}

func TestApprovedRequestsAreSigned(t *testing.T) {
	s := newScene(t, options{before: homes("n")})
	name := s.ask("n")
	s.expect(name, allPassed)
	s.Eventually(func() []byte { return s.get(name).Status.Certificate }).WithTimeout(binary.Patience).ShouldNot(BeEmpty())
	block, _ := pem.Decode(s.get(name).Status.Certificate)
	s.Expect(block).NotTo(BeNil())
	certificate, err := x509.ParseCertificate(block.Bytes)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(certificate.Subject.CommonName).To(Equal("system:node:n"))
	s.Expect(certificate.DNSNames).To(Equal([]string{"n"}))
	s.Expect(certificate.ExtKeyUsage).To(Equal([]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}))
	s.Expect(s.conditions(name)).To(Equal([]string{allPassed}))
}

func TestZeroWorkersAreRejected(t *testing.T) {
	g := NewWithT(t)
	cfg, _, err := config.ResourceManager([]byte("apiVersion: resourcemanager.config.gardener.cloud/v1alpha1\nkind: " +
		"ResourceManagerConfiguration\n" +
		"leaderElection: {leaderElect: false}\ncontrollers: {kubeletCSRApprover: {enabled: true, concurrentSyncs: 0}}\n"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cfg.Validate().ToAggregate()).
		To(MatchError("controllers.kubeletCSRApprover.concurrentSyncs: Invalid value: 0: must be at least 1"))
}

// The username that the API server has authenticated decides, not the contents of the request.
func TestTheUserIsTheAuthenticatedOne(t *testing.T) {
	s := newScene(t, options{before: homes("n")})
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "pretended"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Username: "system:node:n", Groups: []string{"system:nodes"}, Request: s.wish("n").raw,
			SignerName: "kubernetes.io/kubelet-serving", Usages: []certificatesv1.KeyUsage{"digital signature", "server auth"},
		},
	}
	_, err := s.client("mallory", "system:masters").CertificatesV1().CertificateSigningRequests().Create(s.Ctx, csr, metav1.CreateOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	s.expect("pretended", denied(`username "mallory" is not prefixed with "system:node:"`))
}
