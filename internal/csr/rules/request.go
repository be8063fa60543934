package rules

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

const blockType = "CERTIFICATE REQUEST"

// Request is the content of a request and the user that has sent it.
type Request struct {
	// Username is the user that the API server has authenticated.
	Username string
	// CommonName and Organization are fields of the requested subject.
	CommonName   string
	Organization []string
	// DNSNames and IPs are the requested subject alternative names of these types; the signer judges the other types. An IPv4 address is
	// always stored as IPv4.
	DNSNames []string
	IPs      []netip.Addr
	// Expiration is the requested lifetime; 0 means that the request has none.
	Expiration time.Duration
}

// Read parses a request. Of several PEM blocks it reads only the first, like the API server and the signer. The error does not contain the
// request; it can contain a URI among the subject alternative names that cannot be parsed.
func Read(spec certificatesv1.CertificateSigningRequestSpec) (Request, error) {
	block, _ := pem.Decode(spec.Request)
	if block == nil || block.Type != blockType {
		return Request{}, errors.New("PEM block type must be " + blockType)
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return Request{}, fmt.Errorf("parse PKCS#10 request: %w", err)
	}
	request := Request{
		Username:     spec.Username,
		CommonName:   parsed.Subject.CommonName,
		Organization: parsed.Subject.Organization,
		DNSNames:     parsed.DNSNames,
	}
	for _, raw := range parsed.IPAddresses {
		ip, ok := netip.AddrFromSlice(raw)
		if !ok {
			return Request{}, fmt.Errorf("IP address of %d bytes in the SANs", len(raw))
		}
		request.IPs = append(request.IPs, ip.Unmap())
	}
	if spec.ExpirationSeconds != nil {
		request.Expiration = time.Duration(*spec.ExpirationSeconds) * time.Second
	}
	return request, nil
}
