package load

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"strconv"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

// requests are requests for serving certificates in the name of a kubelet. Revision n has arrived when n of them are approved.
type requests struct {
	base
	kubelet   client.Client
	user      string
	names     []string
	addresses []net.IP
}

// create finds the Node that has a kubelet. The requests are sent as this kubelet.
func (r *requests) create(ctx context.Context) error {
	found := &corev1.NodeList{}
	if err := r.cluster.Client.List(ctx, found); err != nil {
		return err
	}
	for _, node := range found.Items {
		if _, ours := node.Labels[marker]; !ours && len(node.Status.Addresses) > 0 {
			r.user = "system:node:" + node.Name
			r.names, r.addresses = cluster.ServingIdentities(&node)
		}
	}
	if r.user == "" {
		return errors.New("there is no Node with addresses")
	}
	var err error
	r.kubelet, err = r.cluster.As(r.user, "system:nodes", "system:authenticated")
	return err
}

func (r *requests) change(ctx context.Context, _ string, to int) error {
	request, err := r.request()
	if err != nil {
		return err
	}
	return client.IgnoreAlreadyExists(r.kubelet.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: r.namespace + "-" + strconv.Itoa(to), Labels: map[string]string{marker: r.namespace}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certificatesv1.KubeletServingSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}))
}

func (r *requests) request() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	return cert.MakeCSR(key, &pkix.Name{CommonName: r.user, Organization: []string{"system:nodes"}}, r.names, r.addresses)
}

func (r *requests) results(ctx context.Context) (arrived map[string]int, unsettled []string, err error) {
	found := &certificatesv1.CertificateSigningRequestList{}
	err = r.cluster.Client.List(ctx, found, client.MatchingLabels{marker: r.namespace})
	approved := 0
	for _, request := range found.Items {
		for _, condition := range request.Status.Conditions {
			if condition.Type == certificatesv1.CertificateApproved {
				approved++
			}
		}
	}
	return map[string]int{"kubelet": approved}, nil, err
}
