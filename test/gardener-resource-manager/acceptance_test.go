package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// access is the ManagedResource from which the resource manager of a Shoot gets its own rights in the Shoot, without the webhooks.
const access = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: gardener.cloud:target:resource-manager
  annotations: {resources.gardener.cloud/keep-object: "true"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects:
- {kind: ServiceAccount, name: gardener-resource-manager, namespace: kube-system}
---
`

// The test takes the steps of gardenlet: a first Deployment with a certificate, until the resource manager has written a token for itself,
// and a second Deployment with the token. Then the other parts of the control plane get tokens.
func TestAShootWithoutWorkers(t *testing.T) {
	s := newShoot(t, "shoot--cellar--tiny")
	own := s.accessSecret("shoot-access-gardener-resource-manager", "gardener-resource-manager", "shoot")
	ofGardenlet := s.accessSecret("garden-access-extension", "extension", "garden")
	mr := s.managedResource("shoot-core-gardener-resource-manager", access+read(t, "testdata/webhooks.yaml"))
	first := s.start(workerless, s.bootstrapKubeconfig())
	token := s.awaitToken(own)
	s.awaitHealthy(mr)
	first.awaitStatus("/readyz", http.StatusOK)
	s.Expect(slices.Sorted(maps.Keys(first.children()))).To(Equal([]string{"managedresource-controller", "token-controllers"}))
	first.signal(syscall.SIGTERM)
	s.Expect(first.awaitEnd()).To(Equal(0))

	generic := s.genericKubeconfig(token)
	leading := s.start(workerless, generic)
	leading.awaitStatus("/readyz", http.StatusOK)
	leading.awaitStatus("/healthz", http.StatusOK)
	gardener := s.accessSecret("gardener-internal", "gardener-internal", "shoot")
	s.Expect(s.awaitToken(gardener)).NotTo(BeEmpty())
	s.awaitHealthy(s.managedResource("shoot-core-system",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shoot-info, namespace: kube-system}\n"))
	info := &corev1.ConfigMap{}
	s.Expect(s.target.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "shoot-info"}, info)).To(Succeed())
	s.Expect(info.Annotations).To(HaveKeyWithValue("resources.gardener.cloud/origin",
		"cellar-0ab95cf2-1ff3-4d1f-8d5f-c5b65f7a1e0f-local:shoot--cellar--tiny/shoot-core-system"))
	// The Role allows Events of the core group only.
	info.Data = map[string]string{"changed": "by a user"}
	s.Expect(s.target.Update(t.Context(), info)).To(Succeed())
	s.Eventually(func(g Gomega) {
		g.Expect(s.target.Get(t.Context(), client.ObjectKeyFromObject(info), info)).To(Succeed())
		g.Expect(info.Data).To(BeEmpty())
	}).WithTimeout(binary.Patience).Should(Succeed())
	s.Eventually(leading.out.String).WithTimeout(binary.Patience).Should(
		ContainSubstring(`cannot create resource \"events\" in API group \"events.k8s.io\"`))
	s.Expect(s.leases()).To(Equal([]string{"gardener-resource-manager"}))

	standby := s.start(workerless, generic)
	standby.awaitStatus("/readyz", http.StatusOK)
	standby.awaitStatus("/healthz", http.StatusOK)
	s.Expect(standby.children()).To(BeEmpty(), "only the leader runs controllers")
	leading.signal(syscall.SIGTERM)
	s.Expect(leading.awaitEnd()).To(Equal(0))
	s.Eventually(standby.children).WithTimeout(binary.Patience).Should(HaveLen(2))
	standby.awaitStatus("/readyz", http.StatusOK)
	s.awaitHealthy(s.managedResource("shoot-core-cluster-identity",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cluster-identity, namespace: kube-system}\n"))

	s.Expect(s.source.Get(t.Context(), client.ObjectKeyFromObject(ofGardenlet), ofGardenlet)).To(Succeed())
	s.Expect(ofGardenlet.Data).To(BeEmpty(), "its token is for another cluster")
	for _, each := range []string{delay, authorizer, autoscalers} {
		field, warning, _ := strings.Cut(each, ": ")
		s.Expect(standby.out.String()).To(ContainSubstring(`"field":"` + field + `","warning":"` + warning + `"`))
	}
	s.Expect(standby.out.String()).NotTo(ContainSubstring("Assuming that source and target are one cluster"))
	s.Expect(standby.out.String()).NotTo(ContainSubstring(`"level":"error"`))

	children := standby.children()
	standby.signal(syscall.SIGKILL)
	s.awaitEndOf(children)
}

func TestAShootWithWorkers(t *testing.T) {
	s := newShoot(t, "shoot--cellar--large")
	own := s.accessSecret("shoot-access-gardener-resource-manager", "gardener-resource-manager", "shoot")
	r := s.start(workers, s.bootstrapKubeconfig())
	s.awaitToken(own)
	r.awaitStatus("/readyz", http.StatusOK)
	children := r.children()
	s.Expect(slices.Sorted(maps.Keys(children))).To(Equal([]string{
		"csr-approver", "managedresource-controller", "node-controller", "token-controllers", "webhook-server",
	}))

	// The API server calls the webhooks at the paths that gardenlet declares.
	webhooks := strings.ReplaceAll(read(t, "testdata/webhooks.yaml"), "gardener-resource-manager.shoot--cellar--tiny:443", r.webhook)
	webhooks = strings.ReplaceAll(webhooks, "Y2E=", base64.StdEncoding.EncodeToString(s.authority))
	s.awaitHealthy(s.managedResource("shoot-core-gardener-resource-manager", access+webhooks))
	s.Expect(s.target.Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "dns"}, AutomountServiceAccountToken: ptr.To(false),
	})).To(Succeed())
	s.Eventually(func(g Gomega) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", GenerateName: "dns-"}}
		pod.Labels = map[string]string{
			"resources.gardener.cloud/managed-by":                       "gardener",
			"seccompprofile.resources.gardener.cloud/skip":              "", // gardenlet declares this webhook only where it is enabled
			"topology-spread-constraints.resources.gardener.cloud/skip": "",
		}
		pod.Spec = corev1.PodSpec{ServiceAccountName: "dns", Containers: []corev1.Container{{Name: "dns", Image: "dns"}}}
		g.Expect(s.target.Create(t.Context(), pod)).To(Succeed())
		g.Expect(pod.Spec.NodeSelector).To(Equal(map[string]string{"worker.gardener.cloud/system-components": "true"}))
		g.Expect(pod.Spec.Tolerations).To(ContainElement(HaveField("Key", "pool")))
		g.Expect(pod.Spec.Volumes).To(ConsistOf(HaveField("Projected.Sources", ContainElement(HaveField("ServiceAccountToken", Not(BeNil()))))))
		g.Expect(pod.Spec.Containers[0].Env).To(ContainElement(HaveField("Value", "api.tiny.cellar.internal.local.example.com")))
	}).WithTimeout(binary.Patience).Should(Succeed())

	s.expectApproval("node-1")

	_, metrics := s.get("http://" + r.metrics + "/metrics")
	for name := range children {
		s.Expect(metrics).To(MatchRegexp(`go_goroutines\{binary="`+name+`"\} [0-9]+`), "the metrics of each child are served")
		s.Expect(r.out.String()).To(ContainSubstring(`{"binary":"` + name + `","level":`))
	}
	s.Expect(metrics).To(MatchRegexp(`leader_election_master_status\{name="gardener-resource-manager"\} 1`))
	_, health := s.get("http://" + r.probes + "/healthz?verbose")
	for name := range children {
		s.Expect(health).To(ContainSubstring("[+]" + name + " ok"))
	}

	// A child that does not answer makes the process unhealthy; a child that ends, ends the process.
	s.Expect(syscall.Kill(children["csr-approver"], syscall.SIGSTOP)).To(Succeed())
	s.Eventually(func() int {
		status, _ := s.get("http://" + r.probes + "/readyz")
		return status
	}).WithTimeout(binary.Patience).Should(Equal(http.StatusInternalServerError))
	s.Expect(syscall.Kill(children["csr-approver"], syscall.SIGKILL)).To(Succeed())
	s.Expect(r.awaitEnd()).To(Equal(1))
	s.Expect(r.out.String()).To(ContainSubstring("\nError: csr-approver has ended: signal: killed\n"))
	s.awaitEndOf(children)
}

// awaitEndOf waits until no process of the children exists.
func (s *shoot) awaitEndOf(children map[string]int) {
	s.t.Helper()
	for name, id := range children {
		s.Eventually(func() error { return syscall.Kill(id, 0) }).WithTimeout(binary.Patience).Should(MatchError(syscall.ESRCH), name)
	}
}

// expectApproval creates a Node with its Machine, and requires that a request of its kubelet is approved.
func (s *shoot) expectApproval(name string) {
	s.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: "Hostname", Address: name}, {Type: "InternalIP", Address: "10.1.2.3"}}
	s.Expect(s.target.Create(s.t.Context(), node)).To(Succeed())
	machine := local.NewObject("machine.sapcloud.io/v1alpha1", "Machine", s.namespace, name, nil)
	machine.SetLabels(map[string]string{"node": name})
	s.create(machine)

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.Expect(err).NotTo(HaveOccurred())
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}},
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(10, 1, 2, 3)},
	}, key)
	s.Expect(err).NotTo(HaveOccurred())
	var cfg *rest.Config
	cfg, err = s.servers.Target.UserConfig("system:node:"+name, "system:nodes")
	s.Expect(err).NotTo(HaveOccurred())
	clients, err := kubernetes.NewForConfig(cfg)
	s.Expect(err).NotTo(HaveOccurred())
	requests := clients.CertificatesV1().CertificateSigningRequests()
	request, err := requests.Create(s.t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: "kubernetes.io/kubelet-serving", Usages: []certificatesv1.KeyUsage{"digital signature", "server auth"},
		},
	}, metav1.CreateOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	s.Eventually(func(g Gomega) {
		g.Expect(s.target.Get(s.t.Context(), client.ObjectKeyFromObject(request), request)).To(Succeed())
		g.Expect(request.Status.Conditions).To(ConsistOf(HaveField("Type", certificatesv1.CertificateApproved)))
	}).WithTimeout(binary.Patience).Should(Succeed())
}
