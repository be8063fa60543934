package config_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	mathrand "math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"

	"github.com/espalier-dev/espalier/internal/secrets/config"
)

var now = time.Date(2026, time.February, 28, 12, 0, 0, 0, time.UTC)

// fixedKey is generated once, because keys take long.
var fixedKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func source() config.Source {
	return config.Source{
		Now:          now,
		Random:       mathrand.NewChaCha8([32]byte{1}),
		RSAKey:       func(int) (*rsa.PrivateKey, error) { return fixedKey() },
		HashPassword: func(password string) (string, error) { return "hash of " + password, nil },
	}
}

func generate(t *testing.T, c config.Config) map[string][]byte {
	t.Helper()
	data, err := c.Generate(source())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return data
}

func generateAuthority(t *testing.T) (ca *config.Authority, data map[string][]byte) {
	t.Helper()
	data = generate(t, config.Certificate{Name: "ca", CommonName: "ca-12345678", Type: config.CA})
	ca, err := config.ParseAuthority(data)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return ca, data
}

func keys(data map[string][]byte) []string {
	var names []string
	for name := range data {
		names = append(names, name)
	}
	return names
}

func parse(t *testing.T, chain []byte) *x509.Certificate {
	t.Helper()
	certificate, err := config.ParseCertificate(chain)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return certificate
}

func TestAuthoritySignsItselfForTenCalendarYears(t *testing.T) {
	g := NewWithT(t)
	_, data := generateAuthority(t)

	g.Expect(keys(data)).To(ConsistOf("ca.crt", "ca.key"))
	ca := parse(t, data["ca.crt"])
	g.Expect(ca.Subject.CommonName).To(Equal("ca-12345678"))
	g.Expect(ca.CheckSignatureFrom(ca)).To(Succeed())
	g.Expect(ca.NotBefore).To(Equal(now.Add(-time.Minute)))
	g.Expect(ca.NotAfter).To(Equal(time.Date(2036, time.February, 28, 12, 0, 0, 0, time.UTC)))
	g.Expect(ca.KeyUsage).To(Equal(
		x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign | x509.KeyUsageCRLSign))
	g.Expect(ca.ExtKeyUsage).To(BeEmpty())
	g.Expect(ca.SerialNumber.BitLen()).To(And(BeNumerically(">", 100), BeNumerically("<=", 128)))
}

func TestCertificatesAskForKeysOf3072Bits(t *testing.T) {
	g := NewWithT(t)
	var bits int
	s := source()
	s.RSAKey = func(length int) (*rsa.PrivateKey, error) {
		bits = length
		return fixedKey()
	}
	_, err := config.Certificate{Name: "ca", Type: config.CA}.Generate(s)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(bits).To(Equal(3072))
}

func TestValidityCountsFromNow(t *testing.T) {
	hour := time.Hour
	data := generate(t, config.Certificate{Name: "ca", Type: config.CA, Validity: &hour})
	NewWithT(t).Expect(parse(t, data["ca.crt"]).NotAfter).To(Equal(now.Add(time.Hour)))
}

func TestSignedCertificatesAreVerifiedByTheirAuthority(t *testing.T) {
	ca, caData := generateAuthority(t)
	for kind, usages := range map[config.CertificateType][]x509.ExtKeyUsage{
		config.Server:          {x509.ExtKeyUsageServerAuth},
		config.Client:          {x509.ExtKeyUsageClientAuth},
		config.ServerAndClient: {x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	} {
		t.Run(string(kind), func(t *testing.T) {
			g := NewWithT(t)
			data := generate(t, config.Certificate{
				Name: "leaf", CommonName: "cn", Organization: []string{"o"}, DNSNames: []string{"a.b"}, IPAddresses: []net.IP{net.IPv6loopback},
				Type: kind, SigningCA: ca,
			})
			g.Expect(keys(data)).To(ConsistOf("tls.crt", "tls.key", "ca.crt"))
			g.Expect(data["ca.crt"]).To(Equal(caData["ca.crt"]))
			leaf := parse(t, data["tls.crt"])
			g.Expect(leaf.ExtKeyUsage).To(Equal(usages))
			g.Expect(leaf.IsCA).To(BeFalse())
			g.Expect(leaf.Subject.Organization).To(Equal([]string{"o"}))
			g.Expect(leaf.VerifyHostname("a.b")).To(Succeed())
			g.Expect(leaf.VerifyHostname("::1")).To(Succeed())
			g.Expect(leaf.CheckSignatureFrom(parse(t, caData["ca.crt"]))).To(Succeed())
		})
	}
}

func TestServerChainContainsTheAuthorityOnlyWhereAskedFor(t *testing.T) {
	ca, caData := generateAuthority(t)
	for kind, blocks := range map[config.CertificateType]int{config.Server: 2, config.Client: 1} {
		g := NewWithT(t)
		data := generate(t, config.Certificate{
			Name: "leaf", Type: kind, SigningCA: ca, SkipPublishingCACertificate: true, IncludeCACertificateInServerChain: true,
		})
		g.Expect(keys(data)).To(ConsistOf("tls.crt", "tls.key"))
		g.Expect(bytes.Count(data["tls.crt"], []byte("BEGIN CERTIFICATE"))).To(Equal(blocks))
		g.Expect(bytes.HasSuffix(data["tls.crt"], caData["ca.crt"])).To(Equal(blocks == 2))
	}
}

func TestPKCS8KeysAreInABlockNamedRSAPrivateKey(t *testing.T) {
	g := NewWithT(t)
	data := generate(t, config.Certificate{Name: "ca", Type: config.CA, PKCS: config.PKCS8})
	block, _ := pem.Decode(data["ca.key"])
	g.Expect(block.Type).To(Equal(keyutil.RSAPrivateKeyBlockType))
	g.Expect(x509.ParsePKCS8PrivateKey(block.Bytes)).NotTo(BeNil())

	_, err := config.ParseAuthority(data)
	g.Expect(err).NotTo(HaveOccurred())
}

func TestUnknownCertificateTypeIsRefused(t *testing.T) {
	_, err := config.Certificate{Name: "x", Type: "other"}.Generate(source())
	NewWithT(t).Expect(err).To(MatchError(`describe certificate "x": unknown certificate type "other"`))
}

func TestBrokenAuthorityIsRefusedWithoutShowingItsData(t *testing.T) {
	_, data := generateAuthority(t)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	foreign, err := keyutil.MarshalPrivateKeyToPEM(other)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, tc := range map[string]struct {
		data map[string][]byte
		want string
	}{
		"no certificate":       {map[string][]byte{"ca.key": data["ca.key"]}, "parse ca.crt"},
		"no key":               {map[string][]byte{"ca.crt": data["ca.crt"], "ca.key": []byte("topsecret")}, "parse ca.key: no PEM block"},
		"key of another one":   {map[string][]byte{"ca.crt": data["ca.crt"], "ca.key": foreign}, "ca.key does not belong to ca.crt"},
		"certificate as a key": {map[string][]byte{"ca.crt": data["ca.crt"], "ca.key": data["ca.crt"]}, "parse ca.key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.ParseAuthority(tc.data)
			NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring(tc.want), Not(ContainSubstring("topsecret")))))
		})
	}
}

func TestRSAKeyForSSHHasAnAuthorizedKey(t *testing.T) {
	g := NewWithT(t)
	g.Expect(keys(generate(t, config.RSAKey{Name: "k", Bits: 4096}))).To(ConsistOf("id_rsa"))

	data := generate(t, config.RSAKey{Name: "k", Bits: 4096, UsedForSSH: true})
	g.Expect(keys(data)).To(ConsistOf("id_rsa", "id_rsa.pub"))
	// 00 00 00 07 "ssh-rsa" 00 00 00 03 01 00 01, as every key with the exponent 65537 begins.
	g.Expect(string(data["id_rsa.pub"])).To(And(HavePrefix("ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQ"), HaveSuffix("\n")))
}

func TestEncryptionKeyHasRandomBytesAndSaysSo(t *testing.T) {
	for provider, stored := range map[config.EncryptionProvider]string{"": "", config.AESCBC: "", config.SecretBox: "secretbox"} {
		g := NewWithT(t)
		data := generate(t, config.EncryptionKey{Provider: provider, Name: "k", SecretLength: 32})
		g.Expect(data).To(And(HaveLen(4), HaveKeyWithValue("key", []byte("key1772280000")), HaveKeyWithValue("encoding", []byte("none")),
			HaveKeyWithValue("provider", []byte(stored)), HaveKeyWithValue("secret", HaveLen(32))))
	}
}

func TestBasicAuthHashesARandomPassword(t *testing.T) {
	g := NewWithT(t)
	data := generate(t, config.BasicAuth{Name: "n", Format: config.FormatNormal, Username: "admin", PasswordLength: 32})
	g.Expect(string(data["password"])).To(MatchRegexp("^[0-9a-zA-Z]{32}$"))
	g.Expect(data).To(Equal(map[string][]byte{
		"username": []byte("admin"), "password": data["password"], "auth": []byte("admin:hash of " + string(data["password"])),
	}))
}

func TestStaticTokensAreLinesOfATokenFile(t *testing.T) {
	g := NewWithT(t)
	data := generate(t, config.StaticTokens{Name: "t", Users: map[string]config.TokenUser{
		"b": {Username: "bob", UserID: "2", Groups: []string{"x", "y"}}, "a": {Username: "ann", UserID: "1"},
	}})
	g.Expect(string(data["static_tokens.csv"])).To(MatchRegexp("^[0-9a-zA-Z]{128},ann,1\n[0-9a-zA-Z]{128},bob,2,\"x,y\"\n$"))
}

func TestKubeconfigHasOneContextOfThatName(t *testing.T) {
	g := NewWithT(t)
	data := generate(t, config.Kubeconfig{
		Name: "k", ContextName: "garden", Cluster: config.Cluster{Server: "api", CAData: []byte("ca")}, User: config.User{TokenFile: "/token"},
	})
	file, err := clientcmd.Load(data["kubeconfig"])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(file.CurrentContext).To(Equal("garden"))
	g.Expect(file.Contexts).To(And(HaveLen(1), HaveKey("garden")))
	g.Expect(file.Clusters["garden"].Server).To(Equal("https://api"))
	g.Expect(file.Clusters["garden"].CertificateAuthorityData).To(Equal([]byte("ca")))
	g.Expect(file.AuthInfos["garden"].TokenFile).To(Equal("/token"))
}

func TestControlPlaneCredentialsAreUsedByItsKubeconfig(t *testing.T) {
	g := NewWithT(t)
	ca, caData := generateAuthority(t)
	data := generate(t, config.ControlPlane{
		Name:        "bootstrap",
		Certificate: &config.Certificate{Name: "bootstrap", Type: config.Client, SigningCA: ca, SkipPublishingCACertificate: true},
		BasicAuth:   &config.Password{Username: "u", Password: "p"},
		Token:       &config.Token{Username: "u", Token: "t"},
		Kubeconfigs: []config.KubeconfigRequest{{ClusterName: "garden", APIServerHost: "api", CAData: []byte("bundle")}},
	})
	g.Expect(keys(data)).To(ConsistOf("bootstrap.crt", "bootstrap.key", "ca.crt", "username", "password", "token", "kubeconfig"))
	g.Expect(data["ca.crt"]).To(Equal(caData["ca.crt"]))
	file, err := clientcmd.Load(data["kubeconfig"])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(file.AuthInfos["garden"].ClientCertificateData).To(Equal(data["bootstrap.crt"]))
	g.Expect(file.Clusters["garden"].CertificateAuthorityData).To(Equal([]byte("bundle")))
}

func TestBundlesAreConcatenations(t *testing.T) {
	g := NewWithT(t)
	parts := [][]byte{[]byte("one\n"), []byte("two\n")}
	g.Expect(generate(t, config.CertificateBundle("b", parts...))).To(HaveKeyWithValue("bundle.crt", []byte("one\ntwo\n")))
	g.Expect(generate(t, config.PrivateKeyBundle("b", parts...))).To(HaveKeyWithValue("bundle.key", []byte("one\ntwo\n")))
}

func TestMissingRandomBytesAreAnError(t *testing.T) {
	for name, c := range map[string]config.Config{
		"certificate":    config.Certificate{Name: "c", Type: config.CA},
		"encryption key": config.EncryptionKey{Name: "k", SecretLength: 32},
		"basic auth":     config.BasicAuth{Name: "b", PasswordLength: 32},
		"static tokens":  config.StaticTokens{Name: "t", Users: map[string]config.TokenUser{"a": {}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := source()
			s.Random = strings.NewReader("short")
			_, err := c.Generate(s)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring("read random bytes")))
		})
	}
}

func TestFailedKeyGenerationIsReported(t *testing.T) {
	s := source()
	s.RSAKey = func(int) (*rsa.PrivateKey, error) { return nil, errors.New("no entropy") }
	_, err := config.RSAKey{Name: "k", Bits: 4096}.Generate(s)
	NewWithT(t).Expect(err).To(MatchError("generate RSA key of 4096 bits: no entropy"))
}

func TestCharactersOfPasswordsAreEquallyProbable(t *testing.T) {
	s := source()
	// 256 is no multiple of 62: bytes from 248 on would make the first characters more frequent
	s.Random = bytes.NewReader([]byte{255, 248, 1})
	data, err := config.BasicAuth{Name: "n", Username: "u", PasswordLength: 1}.Generate(s)
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(data["password"])).To(Equal("1"))
}
