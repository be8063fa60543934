package config_test

import (
	"net"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/secrets/config"
)

const (
	kubeKey     = "kube-apiserver-etcd-encryption-key"
	gardenerKey = "gardener-apiserver-etcd-encryption-key"
)

// The values come from existing landscapes. A change of one of them makes the operator create new authorities and keys there.
func TestHashesAreThoseOfExistingLandscapes(t *testing.T) {
	month := 720 * time.Hour
	for name, tc := range map[string]struct {
		config config.Config
		want   uint64
	}{
		"certificate with a name":     {config.Certificate{Name: "config-name"}, 1645436262831067767},
		"certificate with signing CA": {config.Certificate{Name: "config-name", SigningCA: &config.Authority{}}, 17861245496710117091},
		"certificate authority with common name": {
			config.Certificate{Name: "config", CommonName: "my-ca-common-name", Type: config.CA}, 8423349991247232832,
		},
		"RSA key":                   {config.RSAKey{Name: "config", Bits: 3072}, 4249693446224351796},
		"RSA key for SSH":           {config.RSAKey{Name: "config", Bits: 3072, UsedForSSH: true}, 12157144401286930865},
		"ca-garden-runtime":         {config.Certificate{Name: "ca-garden-runtime", Type: config.CA, Validity: &month}, 16673209851562311609},
		"ca-etcd":                   {authority("ca-etcd", "etcd"), 9822582455512733941},
		"ca-etcd-peer":              {authority("ca-etcd-peer", "etcd-peer"), 8044678318645782438},
		"ca":                        {authority("ca", "kubernetes"), 12627284116289067259},
		"ca-client":                 {authority("ca-client", "kubernetes-client"), 17816322903345047093},
		"ca-front-proxy":            {authority("ca-front-proxy", "front-proxy"), 3085708120036696374},
		"ca-gardener":               {authority("ca-gardener", "gardener"), 964580548055477989},
		"service-account-key":       {config.RSAKey{Name: "service-account-key", Bits: 4096}, 4940742756935928387},
		"kube-apiserver key":        {config.EncryptionKey{Name: kubeKey, SecretLength: 32}, 11260462008266272260},
		"kube-apiserver aescbc key": {config.EncryptionKey{Provider: config.AESCBC, Name: kubeKey, SecretLength: 32}, 11260462008266272260},
		"kube-apiserver aesgcm key": {config.EncryptionKey{Provider: config.AESGCM, Name: kubeKey, SecretLength: 32}, 16587173128987978403},
		"kube-apiserver secretbox key": {
			config.EncryptionKey{Provider: config.SecretBox, Name: kubeKey, SecretLength: 32}, 164127294202312651,
		},
		"gardener-apiserver key": {config.EncryptionKey{Name: gardenerKey, SecretLength: 32}, 10983875805322960916},
		"gardener-apiserver aesgcm key": {
			config.EncryptionKey{Provider: config.AESGCM, Name: gardenerKey, SecretLength: 32}, 4974727366950675848,
		},
		"gardener-apiserver secretbox key": {
			config.EncryptionKey{Provider: config.SecretBox, Name: gardenerKey, SecretLength: 32}, 11239317750856791634,
		},
		"observability-ingress": {
			config.BasicAuth{Name: "observability-ingress", Format: "normal", Username: "admin", PasswordLength: 32}, 11858292764484506667,
		},
		"global-observability-ingress": {
			config.BasicAuth{Name: "global-observability-ingress", Format: "normal", Username: "admin", PasswordLength: 32}, 9998354264352621738,
		},
		"kube-apiserver-static-token": {config.StaticTokens{
			Name:  "kube-apiserver-static-token",
			Users: map[string]config.TokenUser{"health-check": {Username: "health-check", UserID: "health-check"}},
		}, 7428752727178078490},
		"workload identity key": {config.RSAKey{Name: "gardener-apiserver-workload-identity-signing-key", Bits: 4096}, 5491516182719773724},
		"istio basic auth CA": {config.Certificate{
			Name: "ca-virtual-garden-istio-basic-auth-server", CommonName: "istio-basic-auth-server", Type: config.CA, Validity: &month,
		}, 7597743289134626824},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(tc.config.Hash()).To(Equal(tc.want)) })
	}
}

func authority(name, commonName string) config.Certificate {
	return config.Certificate{Name: name, CommonName: commonName, Type: config.CA}
}

// The values were computed with github.com/mitchellh/hashstructure/v2 v2.0.2 (format 2, zero values ignored) over structs of these names.
func TestHashesOfListsMapsAndNestedFieldsAreThoseOfHashstructure(t *testing.T) {
	hour := time.Hour
	for name, tc := range map[string]struct {
		config config.Config
		want   uint64
	}{
		"a map of users, one of them without a user name": {config.StaticTokens{Name: "t", Users: map[string]config.TokenUser{
			"a": {Username: "a", UserID: "1"}, "b": {Username: "b", UserID: "2", Groups: []string{"x", "y"}}, "c": {},
		}}, 4602387576143038984},
		"a bundle of certificates": {
			config.CertificateBundle("ca-bundle", []byte("one\n"), []byte("two\n")), 13180227273069942582,
		},
		"a bundle of private keys": {
			config.PrivateKeyBundle("k-bundle", []byte("one\n"), []byte("two\n")), 14583641597626777429,
		},
		"a certificate with every field": {config.Certificate{
			Name: "c", CommonName: "cn", Organization: []string{"o1", "o2"}, DNSNames: []string{"d1", "d2"},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, Type: config.ServerAndClient, SigningCA: &config.Authority{},
			PKCS: config.PKCS8, Validity: &hour, SkipPublishingCACertificate: true, IncludeCACertificateInServerChain: true,
		}, 16201423807992949605},
		"a kubeconfig with a token file": {config.Kubeconfig{
			Name: "k", ContextName: "garden", Cluster: config.Cluster{Server: "https://x", CAData: []byte("ca")}, User: config.User{TokenFile: "/t"},
		}, 12984299785295863553},
		"a kubeconfig with every kind of user": {config.Kubeconfig{
			Name: "k", ContextName: "garden", Cluster: config.Cluster{Server: "https://x"}, User: config.User{
				ClientCertificateData: []byte("a"), ClientKeyData: []byte("b"), Token: "t", TokenFile: "/t", Username: "u", Password: "p",
			},
		}, 17524757069883974394},
		"a kubeconfig without cluster and user": {config.Kubeconfig{Name: "k", ContextName: "garden"}, 6095351866256367013},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(tc.config.Hash()).To(Equal(tc.want)) })
	}
}
