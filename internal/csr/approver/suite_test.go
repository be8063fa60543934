package approver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"os"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/csr"
	"github.com/espalier-dev/espalier/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServers(m)) }

func approverBinary() binary.Binary {
	return binary.Binary{Name: "csr-approver", Needs: csr.Needs, Add: csr.Add}
}

// scene is a running approver with its own clusters. The requests, Nodes and Machines of the scene are deleted at the end.
type scene struct {
	*binary.Env
	key *ecdsa.PrivateKey
}

// options are the options of a scene.
type options struct {
	twoClusters, stopped bool
	configure            func(*config.ResourceManagerConfiguration)
	// before creates objects that exist when the approver starts. Objects that are created later appear in its caches with a delay.
	before func(*scene)
	// clock is the clock of the approver; nil stands for the real one.
	clock clock.WithTickerAndDelayedExecution
	// log receives the log of the approver; nil discards it.
	log *binary.Log
}

func newScene(t *testing.T, o options) *scene {
	t.Helper()
	var log logr.Logger
	if o.log != nil {
		log = o.log.Logger()
	}
	s := &scene{Env: binary.New(t, approverBinary(), binary.Options{
		TwoClusters: o.twoClusters, Stopped: true, Clock: o.clock, Log: log,
		Config: "controllers: {kubeletCSRApprover: {enabled: true, concurrentSyncs: 5}}",
	})}
	s.Config.Controllers.KubeletCSRApprover.MachineNamespace = s.Namespace
	if o.configure != nil {
		o.configure(s.Config)
	}
	var err error
	s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.Expect(err).NotTo(HaveOccurred())
	s.serveMachines()
	t.Cleanup(s.clean)
	s.node("another", home("another")...)
	if o.before != nil {
		o.before(s)
	}
	if !o.stopped {
		s.Start()
	}
	return s
}

// homes returns a function that creates Nodes with their Machines, and with the addresses that their requests name by default.
func homes(names ...string) func(*scene) {
	return func(s *scene) {
		for _, name := range names {
			s.node(name, home(name)...)
		}
	}
}

// with returns options that change the settings of Espalier.
func with(change func(*config.EspalierCSRApprover)) options {
	return options{configure: func(c *config.ResourceManagerConfiguration) { change(&c.Espalier.CSRApprover) }}
}

func (s *scene) serveMachines() {
	s.T.Helper()
	_, err := binary.Install(s.Ctx, s.Source, "internal/csr/approver/testdata/machines.yaml")
	s.Expect(err).NotTo(HaveOccurred())
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("machine.sapcloud.io/v1alpha1")
	list.SetKind("MachineList")
	s.Eventually(func() error { return s.Source.List(s.Ctx, list) }).WithTimeout(binary.Patience).Should(Succeed())
}

func (s *scene) clean() {
	s.Stop()
	ctx := context.WithoutCancel(s.Ctx)
	s.Expect(s.Target.DeleteAllOf(ctx, &certificatesv1.CertificateSigningRequest{})).To(Succeed())
	s.Expect(s.Target.DeleteAllOf(ctx, &corev1.Node{})).To(Succeed())
}

// node creates a Node with addresses, and its Machine.
func (s *scene) node(name string, addresses ...corev1.NodeAddress) {
	s.T.Helper()
	s.onlyNode(name, addresses...)
	s.machine(s.Namespace, name, name)
}

func (s *scene) onlyNode(name string, addresses ...corev1.NodeAddress) {
	s.T.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Addresses = addresses
	s.Expect(s.Target.Create(s.Ctx, node)).To(Succeed())
}

func (s *scene) machine(namespace, name, node string) *unstructured.Unstructured {
	s.T.Helper()
	machine := &unstructured.Unstructured{}
	machine.SetAPIVersion("machine.sapcloud.io/v1alpha1")
	machine.SetKind("Machine")
	machine.SetNamespace(namespace)
	machine.SetName(name)
	if node != "" {
		machine.SetLabels(map[string]string{"node": node})
	}
	s.Expect(s.Source.Create(s.Ctx, machine)).To(Succeed())
	return machine
}

// home returns the addresses that requests of a node name by default.
func home(name string) []corev1.NodeAddress {
	return []corev1.NodeAddress{{Type: "Hostname", Address: name}, {Type: "InternalIP", Address: "10.1.2.3"}}
}

// wish describes a request to be created.
type wish struct {
	name, user string
	groups     []string
	signer     string
	usages     []certificatesv1.KeyUsage
	seconds    *int32
	template   x509.CertificateRequest
	raw        []byte
}

func (s *scene) wish(node string, changes ...func(*wish)) wish {
	s.T.Helper()
	w := wish{
		user: "system:node:" + node, groups: []string{"system:nodes"}, signer: "kubernetes.io/kubelet-serving",
		usages: []certificatesv1.KeyUsage{"digital signature", "server auth"},
		template: x509.CertificateRequest{
			Subject:  pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
			DNSNames: []string{node}, IPAddresses: []net.IP{net.IPv4(10, 1, 2, 3)},
		},
	}
	for _, change := range changes {
		change(&w)
	}
	if w.raw == nil {
		der, err := x509.CreateCertificateRequest(rand.Reader, &w.template, s.key)
		s.Expect(err).NotTo(HaveOccurred())
		w.raw = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	return w
}

// try creates a request as the user of the wish, authenticated by its client certificate. It returns the request's name.
func (s *scene) try(w wish) (string, error) {
	s.T.Helper()
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: w.name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: w.raw, SignerName: w.signer, Usages: w.usages, ExpirationSeconds: w.seconds,
		},
	}
	if w.name == "" {
		csr.GenerateName = "csr-"
	}
	created, err := s.client(w.user, w.groups...).CertificatesV1().CertificateSigningRequests().Create(s.Ctx, csr, metav1.CreateOptions{})
	return created.GetName(), err
}

func (s *scene) client(user string, groups ...string) kubernetes.Interface {
	s.T.Helper()
	c, err := kubernetes.NewForConfig(s.userConfig(user, groups...))
	s.Expect(err).NotTo(HaveOccurred())
	return c
}

func (s *scene) userConfig(user string, groups ...string) *rest.Config {
	s.T.Helper()
	server := s.Servers.Source
	if s.Source != s.Target {
		server = s.Servers.Target
	}
	cfg, err := server.UserConfig(user, groups...)
	s.Expect(err).NotTo(HaveOccurred())
	return cfg
}

// ask creates a request of a node, and returns its name.
func (s *scene) ask(node string, changes ...func(*wish)) string {
	s.T.Helper()
	name, err := s.try(s.wish(node, changes...))
	s.Expect(err).NotTo(HaveOccurred())
	return name
}

func (s *scene) get(name string) *certificatesv1.CertificateSigningRequest {
	s.T.Helper()
	csr := &certificatesv1.CertificateSigningRequest{}
	s.Expect(s.Target.Get(s.Ctx, client.ObjectKey{Name: name}, csr)).To(Succeed())
	return csr
}

// conditions returns the conditions of a request as "type status reason: message".
func (s *scene) conditions(name string) []string {
	s.T.Helper()
	found := []string{}
	for _, c := range s.get(name).Status.Conditions {
		found = append(found, string(c.Type)+" "+string(c.Status)+" "+c.Reason+": "+c.Message)
	}
	return found
}

const allPassed = "Approved True RequestApproved: Approving kubelet server certificate CSR (all checks passed)"

func denied(reason string) string {
	return "Denied True RequestDenied: Denying kubelet server certificate CSR (" + reason + ")"
}

// expect waits until a request has exactly one condition.
func (s *scene) expect(name, condition string) {
	s.T.Helper()
	s.Eventually(func() []string { return s.conditions(name) }).WithTimeout(binary.Patience).Should(Equal([]string{condition}))
}

// undecided requires that a request is skipped: a later request is approved, and this one is not decided.
func (s *scene) undecided(name string) {
	s.T.Helper()
	s.approvesAnother()
	s.Expect(s.conditions(name)).To(BeEmpty())
}

// approvesAnother creates a valid request, and waits until it is approved.
func (s *scene) approvesAnother() {
	s.T.Helper()
	s.expect(s.ask("another"), allPassed)
}

// metric returns the value of a counter; -1 if it does not exist. The label values are in the order of the label names.
func (s *scene) metric(name string, labels ...string) float64 {
	s.T.Helper()
	families, err := s.Registry.Gather()
	s.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		for _, each := range family.GetMetric() {
			var values []string
			for _, label := range each.GetLabel() {
				values = append(values, label.GetValue())
			}
			if family.GetName() == name && slices.Equal(values, labels) {
				return each.GetCounter().GetValue()
			}
		}
	}
	return -1
}
