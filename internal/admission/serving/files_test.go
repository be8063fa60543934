package serving_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// certDir returns a folder that contains a certificate for that name and its key.
func certDir(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	writePair(t, dir, name)
	return dir
}

// writePair writes tls.crt and tls.key, and returns their paths.
func writePair(t *testing.T, dir, name string) (certificate, key string) {
	t.Helper()
	g := NewWithT(t)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	g.Expect(err).NotTo(HaveOccurred())
	encoded, err := x509.MarshalECPrivateKey(private)
	g.Expect(err).NotTo(HaveOccurred())
	certificate, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	g.Expect(os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)).To(Succeed())
	g.Expect(os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}), 0o600)).To(Succeed())
	return certificate, key
}

func remove(t *testing.T, file string) {
	t.Helper()
	NewWithT(t).Expect(os.Remove(file)).To(Succeed())
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(os.WriteFile(to, data, 0o600)).To(Succeed())
}

// mount is a Secret as the kubelet mounts it: the files are links into ..data, which is a link to a folder that never changes. For a new
// content there is a new folder; ..data is moved to it in one step, and then the old folder is removed.
type mount struct{ dir, current string }

func newMount(t *testing.T, name string) *mount {
	t.Helper()
	m := &mount{dir: t.TempDir()}
	m.swap(t, name)
	for _, file := range []string{"tls.crt", "tls.key"} {
		NewWithT(t).Expect(os.Symlink(filepath.Join("..data", file), filepath.Join(m.dir, file))).To(Succeed())
	}
	return m
}

func (m *mount) swap(t *testing.T, name string) {
	t.Helper()
	g := NewWithT(t)
	folder := filepath.Join(m.dir, "..2026_"+name)
	g.Expect(os.Mkdir(folder, 0o700)).To(Succeed())
	writePair(t, folder, name)
	link := filepath.Join(m.dir, "..data_tmp")
	g.Expect(os.Symlink(filepath.Base(folder), link)).To(Succeed())
	g.Expect(os.Rename(link, filepath.Join(m.dir, "..data"))).To(Succeed())
	if m.current != "" {
		g.Expect(os.RemoveAll(m.current)).To(Succeed())
	}
	m.current = folder
}
