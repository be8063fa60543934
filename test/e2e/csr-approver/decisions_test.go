//go:build e2e

package csrapprover_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// quiet is how long nothing may happen before a spec assumes that nothing will. Decisions take milliseconds.
const quiet = 5 * time.Second

var _ = Describe("decisions", func() {
	var node *corev1.Node

	BeforeEach(func(ctx SpecContext) {
		node = someNode(ctx)
	})

	It("approves what a kubelet asks for its own Node, and the certificate is good for that alone", Label("smoke"), func(ctx SpecContext) {
		asked := fromKubelet(node)
		sent, key := send(ctx, asked)

		Eventually(ctx, answered).WithArguments(sent.Name).Should(Equal(approval()))
		var content []byte
		Eventually(ctx, func(ctx context.Context) ([]byte, error) {
			var err error
			content, err = issued(ctx, sent.Name)
			return content, err
		}).ShouldNot(BeEmpty())

		block, _ := pem.Decode(content)
		Expect(block).NotTo(BeNil())
		certificate, err := x509.ParseCertificate(block.Bytes)
		Expect(err).NotTo(HaveOccurred())
		Expect(key.PublicKey.Equal(certificate.PublicKey)).To(BeTrue())
		Expect(certificate.Subject.CommonName).To(Equal("system:node:" + node.Name))
		Expect(certificate.DNSNames).To(ConsistOf(asked.names))
		Expect(texts(certificate.IPAddresses)).To(ConsistOf(texts(asked.addresses)))
		Expect(certificate.ExtKeyUsage).To(ConsistOf(x509.ExtKeyUsageServerAuth))
	})

	// The user of these requests has all rights except approval, so that only csr-approver can deny them.
	DescribeTable("denies what is forged, and nothing is issued", Label("smoke"),
		func(ctx SpecContext, change func(*request), reason string) {
			asked := forged(node)
			change(&asked)
			sent, _ := send(ctx, asked)

			Eventually(ctx, answered).WithArguments(sent.Name).Should(Equal(denial(reason)))
			Expect(issued(ctx, sent.Name)).To(BeEmpty())
		},
		Entry("by a user who is no kubelet", func(r *request) { r.user = "mallory" },
			`username "mallory" is not prefixed with "system:node:"`),
		Entry("without names and addresses", func(r *request) { r.names, r.addresses = nil, nil },
			"no DNS names or IP addresses in the SANs found"),
		Entry("under another common name", func(r *request) { r.commonName = "system:node:another" },
			"common name in CSR does not match username"),
		Entry("for another organization", func(r *request) { r.organization = []string{"system:masters"} },
			"organization in CSR does not match nodes group"),
		Entry("for the organization of kubelets and another one", func(r *request) {
			r.organization = []string{
				"system:nodes",
				"system:masters",
			}
		},
			"organization in CSR does not match nodes group"),
		Entry("for a Node that does not exist", func(r *request) { r.user, r.commonName = "system:node:e2e-missing", "system:node:e2e-missing" },
			`could not find node object with name "e2e-missing"`),
		Entry("for the API server's name besides the Node's own", func(r *request) { r.names = append(r.names, "kubernetes.default.svc") },
			`DNS name "kubernetes.default.svc" is or covers an identity that is denied to nodes`),
		Entry("for a name besides the Node's own", func(r *request) { r.names = append(r.names, "e2e.example.com") },
			"DNS names in CSR do not match addresses of type 'Hostname' or 'InternalDNS' or 'ExternalDNS' in node object"),
		Entry("for an address besides the Node's own", func(r *request) { r.addresses = append(r.addresses, net.IPv4(192, 0, 2, 1)) },
			"IP addresses in CSR do not match addresses of type 'InternalIP' or 'ExternalIP' in node object"),
		Entry("for an address of another Node in place of the Node's own", func(r *request) { r.addresses = []net.IP{net.IPv4(192, 0, 2, 1)} },
			"IP addresses in CSR do not match addresses of type 'InternalIP' or 'ExternalIP' in node object"),
	)

	It("denies a kubelet that asks for another name, although it may ask", func(ctx SpecContext) {
		asked := fromKubelet(node)
		asked.names = []string{"e2e.example.com"}
		sent, _ := send(ctx, asked)

		Eventually(ctx, answered).WithArguments(sent.Name).Should(Equal(
			denial("DNS names in CSR do not match addresses of type 'Hostname' or 'InternalDNS' or 'ExternalDNS' in node object")))
		Expect(issued(ctx, sent.Name)).To(BeEmpty())
	})

	It("leaves usages to the signer, which issues nothing for a client", func(ctx SpecContext) {
		asked := fromKubelet(node)
		asked.usages = []certificatesv1.KeyUsage{"digital signature", "client auth"}
		sent, _ := send(ctx, asked)

		Eventually(ctx, answered).WithArguments(sent.Name).Should(Equal(approval()))
		Eventually(ctx, func(ctx context.Context) ([]string, error) {
			found, err := c.Clients.CertificatesV1().CertificateSigningRequests().Get(ctx, sent.Name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			types := make([]string, 0, 2)
			for _, condition := range found.Status.Conditions {
				types = append(types, string(condition.Type))
			}
			return types, nil
		}).Should(ConsistOf("Approved", "Failed"))
		Expect(issued(ctx, sent.Name)).To(BeEmpty())
	})

	It("says nothing about requests of other signers", Label("smoke"), func(ctx SpecContext) {
		others := make([]string, 0, 2)
		for _, signer := range []string{"kubernetes.io/kube-apiserver-client", "example.com/e2e"} {
			asked := forged(node)
			asked.signer, asked.commonName, asked.organization = signer, "mallory", nil
			asked.usages = []certificatesv1.KeyUsage{"digital signature", "client auth"}
			sent, _ := send(ctx, asked)
			others = append(others, sent.Name)
		}
		// A later request is decided. So the controller has seen the earlier ones, and their decisions are not just delayed.
		own, _ := send(ctx, fromKubelet(node))
		Eventually(ctx, answered).WithArguments(own.Name).Should(Equal(approval()))
		Consistently(ctx, func(g Gomega, ctx context.Context) {
			for _, name := range others {
				found, err := c.Clients.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(found.Status.Conditions).To(BeEmpty())
			}
		}).WithTimeout(quiet).Should(Succeed())
	})
})

// someNode returns a Node that has a kubelet.
func someNode(ctx context.Context) *corev1.Node {
	GinkgoHelper()
	var found *corev1.Node
	// A kubelet that has just started reports that it is not ready, for a moment.
	Eventually(ctx, func(ctx context.Context) error {
		nodes, err := c.Clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range nodes.Items {
			for _, condition := range nodes.Items[i].Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
					found = &nodes.Items[i]
					return nil
				}
			}
		}
		return fmt.Errorf("none of the %d Nodes is ready", len(nodes.Items))
	}).Should(Succeed())
	return found
}

func texts(addresses []net.IP) []string {
	found := make([]string, 0, len(addresses))
	for _, address := range addresses {
		found = append(found, address.String())
	}
	return found
}
