package rules

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/utils/ptr"
)

// encoded returns a certificate request in PEM.
func encoded(tb testing.TB, template x509.CertificateRequest) []byte {
	tb.Helper()
	g := NewWithT(tb)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	g.Expect(err).NotTo(HaveOccurred())
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func kubelet() x509.CertificateRequest {
	return x509.CertificateRequest{
		Subject:        pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}},
		DNSNames:       []string{"n", "n.example.com"},
		IPAddresses:    []net.IP{net.IPv4(10, 1, 2, 3), net.ParseIP("2001:db8::1")},
		EmailAddresses: []string{"n@example.com"},
	}
}

func TestRead(t *testing.T) {
	g := NewWithT(t)
	got, err := Read(certificatesv1.CertificateSigningRequestSpec{
		Request: encoded(t, kubelet()), Username: "system:node:n", ExpirationSeconds: ptr.To[int32](600),
	})
	g.Expect(err).NotTo(HaveOccurred())
	want := Request{
		Username: "system:node:n", CommonName: "system:node:n", Organization: []string{"system:nodes"},
		DNSNames: []string{"n", "n.example.com"}, IPs: []netip.Addr{netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("2001:db8::1")},
		Expiration: 10 * time.Minute,
	}
	g.Expect(got).To(Equal(want))
	g.Expect(got.NodeName()).To(Equal("n"))
}

func TestReadRefuses(t *testing.T) {
	good := encoded(t, kubelet())
	block, _ := pem.Decode(good)
	for name, tc := range map[string]struct {
		raw  []byte
		want string
	}{
		"nothing":         {nil, "PEM block type must be CERTIFICATE REQUEST"},
		"garbage":         {[]byte("garbage"), "PEM block type must be CERTIFICATE REQUEST"},
		"DER without PEM": {block.Bytes, "PEM block type must be CERTIFICATE REQUEST"},
		"another block": {
			pem.EncodeToMemory(&pem.Block{Type: "NEW CERTIFICATE REQUEST", Bytes: block.Bytes}), "PEM block type must be CERTIFICATE REQUEST",
		},
		"another block first": {
			append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}), good...),
			"PEM block type must be CERTIFICATE REQUEST",
		},
		"a block of zeros": {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: make([]byte, 100)}), "parse PKCS#10 request: "},
		"half a request": {
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: block.Bytes[:len(block.Bytes)/2]}), "parse PKCS#10 request: ",
		},
		"bytes after it": {
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: append(bytes.Clone(block.Bytes), 0)}), "parse PKCS#10 request: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := Read(certificatesv1.CertificateSigningRequestSpec{Request: tc.raw})
			g.Expect(err).To(MatchError(HavePrefix(tc.want)))
			g.Expect(got).To(Equal(Request{}))
		})
	}
}

// FuzzRead fails if the parser panics, or if a request that is not from a node is approved.
func FuzzRead(f *testing.F) {
	good := encoded(f, kubelet())
	f.Add(good)
	f.Add(append(bytes.Clone(good), good...))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"))
	f.Add([]byte("garbage"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := Read(certificatesv1.CertificateSigningRequestSpec{Request: raw, Username: "system:node:n"})
		if err != nil {
			if len(got.DNSNames)+len(got.IPs)+len(got.CommonName) > 0 {
				t.Errorf("an error with a request: %v", got)
			}
			return
		}
		r := Rules{Own: denyAPIServer(), DeniedDNS: Patterns([]string{"a.*", "*.b"}), AllowedDNS: ptr.To(Patterns([]string{"*.c", "n"}))}
		if r.JudgeRequest(got).Outcome == Approve && got.CommonName != "system:node:n" {
			t.Errorf("approved for %q", got.CommonName)
		}
		r.JudgeObjects(got, Objects{NodeExists: true, Machines: 1}, 0)
	})
}

// FuzzPattern fails if matching panics, or if a pattern allows a name that stands for many names.
func FuzzPattern(f *testing.F) {
	f.Add("ip-*.example.com", "ip-1.example.com")
	f.Add("*", "*")
	f.Add("a.b", "a..b.")
	f.Fuzz(func(t *testing.T, text, name string) {
		p := Patterns([]string{text})[0]
		if p.describes(name) && strings.ContainsRune(name, '*') {
			t.Errorf("%q is allowed by %q", name, text)
		}
		p.overlaps(labels(name))
		isAPIServer(labels(name))
	})
}
