//go:build e2e

package csrapprover_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

const servingSigner = "kubernetes.io/kubelet-serving"

// request describes a CertificateSigningRequest.
type request struct {
	user         string
	groups       []string
	signer       string
	usages       []certificatesv1.KeyUsage
	commonName   string
	organization []string
	names        []string
	addresses    []net.IP
}

// fromKubelet returns the request that a Node's kubelet would send.
func fromKubelet(node *corev1.Node) request {
	names, addresses := cluster.ServingIdentities(node)
	return request{
		user: "system:node:" + node.Name, groups: []string{"system:nodes", "system:authenticated"},
		signer:     servingSigner,
		usages:     []certificatesv1.KeyUsage{"digital signature", "server auth"},
		commonName: "system:node:" + node.Name, organization: []string{"system:nodes"},
		names: names, addresses: addresses,
	}
}

// forged returns a request of an attacker who has the user name of a Node's kubelet and every right in the cluster, so that only the
// approver can prevent a certificate. The admission plugin NodeRestriction checks only members of system:nodes.
func forged(node *corev1.Node) request {
	r := fromKubelet(node)
	r.groups = []string{"system:masters", "system:authenticated"}
	return r
}

// send creates the request, and deletes it at the end of the spec. It returns the request and its private key.
func send(ctx context.Context, r request) (*certificatesv1.CertificateSigningRequest, *ecdsa.PrivateKey) {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	content, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: r.commonName, Organization: r.organization}, DNSNames: r.names, IPAddresses: r.addresses,
	}, key)
	Expect(err).NotTo(HaveOccurred())
	asking := rest.CopyConfig(c.Config)
	asking.Impersonate = rest.ImpersonationConfig{UserName: r.user, Groups: r.groups}
	clients, err := kubernetes.NewForConfig(asking)
	Expect(err).NotTo(HaveOccurred())
	created, err := clients.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: content}), SignerName: r.signer, Usages: r.usages,
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(c.Clients.CertificatesV1().CertificateSigningRequests().Delete(ctx, created.Name, metav1.DeleteOptions{})).To(Succeed())
	})
	return created, key
}

// answer is the decision about a request.
type answer struct{ Decision, Reason, Message string }

// answered returns the current decision; it is empty if there is none.
func answered(ctx context.Context, name string) (answer, error) {
	found, err := c.Clients.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return answer{}, err
	}
	return decision(found), nil
}

func decision(of *certificatesv1.CertificateSigningRequest) answer {
	for _, condition := range of.Status.Conditions {
		if condition.Type == certificatesv1.CertificateApproved || condition.Type == certificatesv1.CertificateDenied {
			return answer{Decision: string(condition.Type), Reason: condition.Reason, Message: condition.Message}
		}
	}
	return answer{}
}

// approval is the decision about a valid request.
func approval() answer {
	return answer{"Approved", "RequestApproved", "Approving kubelet server certificate CSR (all checks passed)"}
}

// denial is the decision about an invalid request.
func denial(reason string) answer {
	return answer{"Denied", "RequestDenied", "Denying kubelet server certificate CSR (" + reason + ")"}
}

// issued returns the certificate of a request; nil if there is none.
func issued(ctx context.Context, name string) ([]byte, error) {
	found, err := c.Clients.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return found.Status.Certificate, nil
}
