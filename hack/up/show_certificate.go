package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/test/local"
)

// showCertificates requests two serving certificates as the kubelet of the fake node: one for the node's own addresses and one for a name
// that does not belong to the node.
func (s settings) showCertificates(ctx context.Context, r *report, w world) error {
	if s.cluster != "" {
		r.step("serving certificates: on a cluster of yours csr-approver only observes, and nothing is asked of it")
		return nil
	}
	r.step("serving certificates: the kubelet of node %s asks for two", local.FakeNode)
	admin, err := kubernetes.NewForConfig(w.admin)
	if err != nil {
		return err
	}
	node, err := admin.CoreV1().Nodes().Get(ctx, local.FakeNode, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read node: %w", err)
	}
	names, addresses := local.ServingIdentities(node)
	foreign := append(slices.Clone(names), "kubernetes.default.svc")
	for _, names := range [][]string{names, foreign} {
		request, err := ask(ctx, w.admin, node.Name, names, addresses)
		if err != nil {
			return fmt.Errorf("ask for certificate: %w", err)
		}
		reported, err := answered(ctx, admin, request.Name)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(r, "for %v %v: %s", names, addresses, reported)
	}
	return nil
}

// ask creates a CertificateSigningRequest as the kubelet of a node does.
func ask(
	ctx context.Context, admin *rest.Config, node string, names []string, addresses []net.IP,
) (*certificatesv1.CertificateSigningRequest, error) {
	user := "system:node:" + node
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: user, Organization: []string{"system:nodes"}},
		DNSNames: names, IPAddresses: addresses,
	}, key)
	if err != nil {
		return nil, err
	}
	kubelet := rest.CopyConfig(admin)
	kubelet.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:nodes", "system:authenticated"}}
	clients, err := kubernetes.NewForConfig(kubelet)
	if err != nil {
		return nil, err
	}
	return clients.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "kubelet-of-" + node + "-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}),
			SignerName: certificatesv1.KubeletServingSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}, metav1.CreateOptions{})
}

// answered waits until a request is denied, or a certificate is issued, and describes it.
func answered(ctx context.Context, admin kubernetes.Interface, name string) (reported string, err error) {
	err = await(ctx, 30*time.Second, "an answer to CertificateSigningRequest "+name, func(ctx context.Context) error {
		request, failure := admin.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
		if failure != nil {
			return failure
		}
		for _, condition := range request.Status.Conditions {
			if condition.Type == certificatesv1.CertificateDenied {
				reported = "denied: " + condition.Message
				return nil
			}
		}
		if len(request.Status.Certificate) == 0 {
			return errors.New("no certificate was issued yet")
		}
		reported = "approved, and the certificate was issued"
		return nil
	})
	return reported, err
}

func decodeBase64(text string) (string, error) {
	decoded, err := base64.StdEncoding.DecodeString(text)
	return string(decoded), err
}
