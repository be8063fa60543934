package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"time"
)

type key struct{ private *ecdsa.PrivateKey }

func newKey() (key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return key{private}, err
}

// request returns the request of a node's kubelet, in PEM.
func (k key) request(name string, ip net.IP) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}},
		DNSNames: []string{name}, IPAddresses: []net.IP{ip},
	}, k.private)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), err
}

// look is the pause between two checks of a state.
const look = 50 * time.Millisecond

func address(i int) net.IP { return net.IPv4(10, 250, byte(i/250), byte(i%250+1)) }
