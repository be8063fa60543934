package secrets

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/secrets/config"
)

// The names come from existing landscapes.
func TestNamesAreThoseOfExistingLandscapes(t *testing.T) {
	const time1 = "1646060228"
	month := 720 * time.Hour
	plain := config.Certificate{Name: "config-name"}
	withCA := config.Certificate{Name: "config-name", SigningCA: &config.Authority{}}
	authority := func(name, commonName string) config.Config {
		return config.Certificate{Name: name, CommonName: commonName, Type: config.CA}
	}
	key := func(name string, provider config.EncryptionProvider) config.Config {
		return config.EncryptionKey{Name: name, Provider: provider, SecretLength: 32}
	}
	const kube, extension = "kube-apiserver-etcd-encryption-key", "gardener-apiserver-etcd-encryption-key"
	for want, tc := range map[string]struct {
		config               config.Config
		caChecksum, rotation string
	}{
		"config-name-fd0a3f24-76711": {config: plain, rotation: time1},
		"config-name-a9c2fcb9-76711": {config: withCA, rotation: time1},
		"config-name-a11a0b2d-76711": {config: withCA, caChecksum: "checksum", rotation: time1},
		"config-54620669":            {config: authority("config", "my-ca-common-name")},
		"config-c34363f0":            {config: config.RSAKey{Name: "config", Bits: 3072}},
		"config-c0d53d4a":            {config: config.RSAKey{Name: "config", Bits: 3072, UsedForSSH: true}},
		"ca-garden-runtime-03768586": {config: config.Certificate{Name: "ca-garden-runtime", Type: config.CA, Validity: &month}},
		"ca-etcd-f7594faa":           {config: authority("ca-etcd", "etcd")},
		"ca-etcd-peer-23be1f02":      {config: authority("ca-etcd-peer", "etcd-peer")},
		"ca-f6032ea0":                {config: authority("ca", "kubernetes")},
		"ca-client-58f8e9ac":         {config: authority("ca-client", "kubernetes-client")},
		"ca-front-proxy-4841e85d":    {config: authority("ca-front-proxy", "front-proxy")},
		"ca-gardener-39044a95":       {config: authority("ca-gardener", "gardener")},
		"ca-virtual-garden-istio-basic-auth-server-02766084": {config: config.Certificate{
			Name: "ca-virtual-garden-istio-basic-auth-server", CommonName: "istio-basic-auth-server", Type: config.CA, Validity: &month,
		}},
		"service-account-key-c37a87f6": {config: config.RSAKey{Name: "service-account-key", Bits: 4096}},
		"gardener-apiserver-workload-identity-signing-key-f70e59e4": {
			config: config.RSAKey{Name: "gardener-apiserver-workload-identity-signing-key", Bits: 4096},
		},
		kube + "-80f230d7":       {config: key(kube, "")},
		kube + "-80f230d7-76711": {config: key(kube, config.AESCBC), rotation: time1},
		kube + "-0027f2b7":       {config: key(kube, config.AESGCM)},
		kube + "-d5d35e98":       {config: key(kube, config.SecretBox)},
		extension + "-f08d302c":  {config: key(extension, "")},
		extension + "-b530da2a":  {config: key(extension, config.AESGCM)},
		extension + "-cbaa4424":  {config: key(extension, config.SecretBox)},
		"observability-ingress-0da36eb1": {
			config: config.BasicAuth{Name: "observability-ingress", Format: "normal", Username: "admin", PasswordLength: 32},
		},
		"global-observability-ingress-d701e4a9": {
			config: config.BasicAuth{Name: "global-observability-ingress", Format: "normal", Username: "admin", PasswordLength: 32},
		},
		"kube-apiserver-static-token-53d619b2": {config: config.StaticTokens{
			Name:  "kube-apiserver-static-token",
			Users: map[string]config.TokenUser{"health-check": {Username: "health-check", UserID: "health-check"}},
		}},
	} {
		t.Run(want, func(t *testing.T) {
			got := uniqueName(tc.config.LogicalName(), tc.config.Hash(), tc.caChecksum, tc.rotation)
			NewWithT(t).Expect(got).To(Equal(want))
		})
	}
}

func TestChecksumOfDataDependsOnValuesInTheOrderOfTheirKeys(t *testing.T) {
	g := NewWithT(t)
	sum := dataChecksum(map[string][]byte{"ca.key": []byte("b"), "ca.crt": []byte("a")})
	g.Expect(sum).To(Equal(hexSum(hexSum("a") + hexSum("b"))[:63]))
	g.Expect(sum).NotTo(Equal(dataChecksum(map[string][]byte{"ca.key": []byte("a"), "ca.crt": []byte("b")})))
	g.Expect(strings.ToLower(sum)).To(HaveLen(63))
}
