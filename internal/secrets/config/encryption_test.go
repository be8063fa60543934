package config_test

import (
	"encoding/base64"
	"encoding/hex"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/references"
	"github.com/espalier-dev/espalier/internal/secrets/config"
)

const legacyText = "0123456789abcdefghijklmnopqrstuv"

func ascending() []byte {
	secret := make([]byte, 32)
	for i := range secret {
		secret[i] = byte(i)
	}
	return secret
}

func encryptionKeys(t *testing.T) (today, legacy config.UsableEncryptionKey) {
	t.Helper()
	g := NewWithT(t)
	today, err := config.ParseEncryptionKey(map[string][]byte{
		"key": []byte("key1646060228"), "secret": ascending(), "encoding": []byte("none"), "provider": {},
	})
	g.Expect(err).NotTo(HaveOccurred())
	legacy, err = config.ParseEncryptionKey(map[string][]byte{"key": []byte("key1600000000"), "secret": []byte(legacyText)})
	g.Expect(err).NotTo(HaveOccurred())
	return today, legacy
}

func TestBytesAreEncodedAndLegacyTextIsHandedOnAsItIs(t *testing.T) {
	g := NewWithT(t)
	today, legacy := encryptionKeys(t)
	g.Expect(today).To(Equal(config.UsableEncryptionKey{
		Provider: config.AESCBC, Name: "key1646060228", Secret: "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
	}))
	g.Expect(legacy.Secret).To(Equal(legacyText))
	decoded, err := base64.StdEncoding.DecodeString(legacy.Secret)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(hex.EncodeToString(decoded)).To(Equal("d35db7e39ebbf3d69b71d79f8218a39259a7a29aabb2dbaf"))
}

func TestEmptyEncryptionKeyIsRefused(t *testing.T) {
	_, err := config.ParseEncryptionKey(map[string][]byte{"key": []byte("key1")})
	NewWithT(t).Expect(err).To(MatchError(`data keys "key" and "secret" must not be empty`))
}

func TestEncryptionConfigurationIsThatOfExistingLandscapes(t *testing.T) {
	today, legacy := encryptionKeys(t)
	onlyLegacy := config.UsableEncryptionKey{Provider: config.AESCBC, Name: "key1646060228", Secret: legacyText}
	secrets := []string{"secrets"}
	gardener := []string{
		"controllerdeployments.core.gardener.cloud", "controllerregistrations.core.gardener.cloud",
		"internalsecrets.core.gardener.cloud", "shootstates.core.gardener.cloud",
	}
	const kube, extension = "kube-apiserver-etcd-encryption-configuration", "gardener-apiserver-etcd-encryption-configuration"
	for name, tc := range map[string]struct {
		prefix    string
		resources []string
		keys      []config.UsableEncryptionKey
		want      string
	}{
		"a key of today":          {kube, secrets, []config.UsableEncryptionKey{today}, kube + "-fcee65cf"},
		"a legacy key":            {kube, secrets, []config.UsableEncryptionKey{onlyLegacy}, kube + "-3680a25d"},
		"a key of each kind":      {kube, secrets, []config.UsableEncryptionKey{today, legacy}, kube + "-6fe6a814"},
		"resources of Gardener's": {extension, gardener, []config.UsableEncryptionKey{today}, extension + "-e7e24177"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			content, err := config.Encryption{Resources: tc.resources, Keys: tc.keys}.YAML()
			g.Expect(err).NotTo(HaveOccurred())
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: tc.prefix}, Data: map[string][]byte{"encryption-configuration.yaml": content},
			}
			references.MakeSecretUnique(secret)
			g.Expect(secret.Name).To(Equal(tc.want), string(content))
		})
	}
}

func TestEncryptionConfigurationOfProvidersAndDecryptedResources(t *testing.T) {
	g := NewWithT(t)
	key := func(provider config.EncryptionProvider, name string) config.UsableEncryptionKey {
		return config.UsableEncryptionKey{Provider: provider, Name: name, Secret: "s"}
	}
	content, err := config.Encryption{
		Resources: []string{"secrets"},
		Decrypted: []string{"pods", "configmaps"},
		Keys:      []config.UsableEncryptionKey{key(config.SecretBox, "a"), key(config.AESCBC, "b"), key(config.AESCBC, "c")},
	}.YAML()
	g.Expect(err).NotTo(HaveOccurred())
	parsed, err := config.ParseEncryptionKeys(content)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(parsed).To(Equal([]config.UsableEncryptionKey{key(config.SecretBox, "a"), key(config.AESCBC, "b"), key(config.AESCBC, "c")}))
	g.Expect(string(content)).To(Equal(`apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- providers:
  - secretbox:
      keys:
      - name: a
        secret: s
  - aescbc:
      keys:
      - name: b
        secret: s
      - name: c
        secret: s
  - identity: {}
  resources:
  - secrets
- providers:
  - identity: {}
  - secretbox:
      keys:
      - name: a
        secret: s
  - aescbc:
      keys:
      - name: b
        secret: s
      - name: c
        secret: s
  resources:
  - configmaps
  - pods
`))
}

func TestUnreadableEncryptionConfigurationIsRefused(t *testing.T) {
	g := NewWithT(t)
	for _, text := range []string{"resources: {", ""} {
		_, err := config.ParseEncryptionKeys([]byte(text))
		g.Expect(err).To(MatchError("it is not an EncryptionConfiguration"))
	}
}

func TestIncompleteEncryptionConfigurationIsRefused(t *testing.T) {
	g := NewWithT(t)
	_, err := config.Encryption{Resources: []string{"secrets"}}.YAML()
	g.Expect(err).To(MatchError("an encryption configuration needs a key and a resource"))
	unknown := []config.UsableEncryptionKey{{Provider: "kms", Name: "a", Secret: "s"}}
	_, err = config.Encryption{Resources: []string{"secrets"}, Keys: unknown}.YAML()
	g.Expect(err).To(MatchError(`unknown encryption provider "kms"`))
}

func TestUnencryptedResourcesOfAConfiguration(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
	const key = "{keys: [{name: a, secret: hidden}]}"
	for sentence, tc := range map[string]struct {
		configuration string
		want          []string // of secrets and pods
	}{
		"both encrypted": {configuration: head + "- {resources: [secrets, pods], providers: [{aescbc: " + key + "}, {identity: {}}]}"},
		"one written as plain text": {
			configuration: head + "- {resources: [secrets], providers: [{secretbox: " + key + "}]}\n" +
				"- {resources: [pods], providers: [{identity: {}}, {secretbox: " + key + "}]}",
			want: []string{"pods"},
		},
		"one missing":             {configuration: head + "- {resources: [pods], providers: [{aesgcm: " + key + "}]}", want: []string{"secrets"}},
		"a part without provider": {configuration: head + "- {resources: [secrets, pods]}", want: []string{"secrets", "pods"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			found, err := config.Unencrypted([]string{"secrets", "pods"}, []byte(tc.configuration))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found).To(HaveExactElements(tc.want))
		})
	}
	for _, text := range []string{"", "a: b", "resources: hidden", head + "- hidden", "{"} {
		_, err := config.Unencrypted([]string{"secrets"}, []byte(text))
		NewWithT(t).Expect(err).To(MatchError("it is not an EncryptionConfiguration"), text)
	}
}
