package requestor_test

import (
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/test/binary"
)

// The Secrets of the document "Access to the Garden Cluster for Extensions", apart from their namespaces.
const (
	manualSecret = `
apiVersion: v1
kind: Secret
metadata:
  name: garden-access-example
  labels:
    resources.gardener.cloud/purpose: token-requestor
    resources.gardener.cloud/class: garden
  annotations:
    serviceaccount.resources.gardener.cloud/name: example
type: Opaque
`
	customSecret = `
apiVersion: v1
kind: Secret
metadata:
  name: my-custom-component
  labels:
    resources.gardener.cloud/purpose: token-requestor
    resources.gardener.cloud/class: garden
  annotations:
    serviceaccount.resources.gardener.cloud/name: my-custom-component-extension-foo
    serviceaccount.resources.gardener.cloud/labels: '{"foo":"bar}'
type: Opaque
`
)

// newGarden returns a scene with the settings of a Seed: the target is the garden, and all ServiceAccounts are in one namespace of it, the
// namespace of the Seed.
func newGarden(t *testing.T) (s *scene, seed string) {
	t.Helper()
	s = newScene(t, binary.Options{
		TwoClusters: true, Stopped: true, Config: requestorEnabled + "espalier: {token: {class: garden, audiences: []}}\n",
	})
	seed = s.namespace()
	s.Config.Espalier.Token.TargetNamespace = &seed
	s.Start()
	return s, seed
}

// apply creates a Secret of the document.
func (s *scene) apply(text string) {
	s.T.Helper()
	secret := &corev1.Secret{}
	s.Expect(yaml.UnmarshalStrict([]byte(text), secret)).To(Succeed())
	secret.Namespace = s.Namespace
	s.create(secret)
}

func TestManualSecretOfTheDocumentGetsATokenForTheGarden(t *testing.T) {
	s, seed := newGarden(t)
	s.apply(manualSecret)
	s.Expect(s.answers(s.token("garden-access-example", ""))).To(Equal(http.StatusForbidden), "the token authenticates, and has no rights")
	account := &corev1.ServiceAccount{}
	s.Expect(s.Target.Get(s.Ctx, key(seed, "example"), account)).To(Succeed())
	s.Expect(account.Labels).To(BeEmpty())
	s.Expect(s.read("garden-access-example").Data).To(HaveLen(1))
}

// The labels in the document lack a quotation mark. The mistake is reported, and the Secret works without it.
func TestCustomSecretOfTheDocumentGetsATokenForTheGarden(t *testing.T) {
	s, seed := newGarden(t)
	s.apply(customSecret)
	s.Eventually(s.reported("my-custom-component")).Should(ContainElement(And(HavePrefix("Warning TokenRequestFailed: "),
		ContainSubstring(`failed unmarshaling service account labels from secret annotation `+
			`"serviceaccount.resources.gardener.cloud/labels" ({"foo":"bar})`))))
	s.Expect(s.Source.Delete(s.Ctx, s.read("my-custom-component"))).To(Succeed())
	s.apply(strings.Replace(customSecret, `"bar}`, `"bar"}`, 1))
	s.Expect(s.answers(s.token("my-custom-component", ""))).To(Equal(http.StatusForbidden), "the token authenticates, and has no rights")
	account := &corev1.ServiceAccount{}
	s.Expect(s.Target.Get(s.Ctx, key(seed, "my-custom-component-extension-foo"), account)).To(Succeed())
	s.Expect(account.Labels).To(Equal(map[string]string{"foo": "bar"}))
}
