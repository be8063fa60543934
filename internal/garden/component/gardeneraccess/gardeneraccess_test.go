package gardeneraccess_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/gardeneraccess"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func of(domains ...string) values.Values {
	return values.Values{Operator: values.Operator{Namespace: "garden"}, Domains: domains}
}

func secrets(t *testing.T, v values.Values, live map[string]*corev1.Secret) []client.Object {
	t.Helper()
	objects, err := gardeneraccess.Secrets(v, []byte("bundle"), live)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return objects
}

// live returns a Secret with a kubeconfig.
func live(kubeconfig string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "gardener", ResourceVersion: "7"},
		Data:       map[string][]byte{"kubeconfig": []byte(kubeconfig), "token": []byte("former")},
	}
}

func named(secret *corev1.Secret) map[string]*corev1.Secret {
	return map[string]*corev1.Secret{secret.Name: secret}
}

const renewed = `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://former"}}], users: [{name: u, user: {token: abc}}, {name: v, user: {token: def}}]}`

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	existing := live(renewed)
	existing.ResourceVersion = "" // the API server would refuse another one
	goldentest.Compare(t, "new", map[string][]client.Object{
		"new":         append(secrets(t, of("example.com"), nil), gardeneraccess.VirtualObjects()...),
		"renewed":     append(secrets(t, of("example.com"), named(existing)), gardeneraccess.VirtualObjects()...),
		"two-domains": append(secrets(t, of("example.org", "example.com"), nil), gardeneraccess.VirtualObjects()...),
	})
}

func TestTokensAreKept(t *testing.T) {
	for sentence, tc := range map[string]struct{ kubeconfig, token string }{
		"that of the current context": {kubeconfig: renewed, token: "abc"},
		"a kubeconfig without a user": {
			kubeconfig: `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {user: u}}]}`,
		},
		"a kubeconfig without a context": {
			kubeconfig: `{apiVersion: v1, kind: Config, current-context: x, users: [{name: x, user: {token: abc}}]}`,
		},
		"something else": {kubeconfig: "["},
		"nothing":        {},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(gardeneraccess.Token(live(tc.kubeconfig))).To(Equal(tc.token))
			for i, each := range secrets(t, of("example.com"), named(live(tc.kubeconfig))) {
				o, ok := each.(*corev1.Secret)
				g.Expect(ok).To(BeTrue())
				g.Expect(o.Data).To(HaveLen(1))
				g.Expect(gardeneraccess.Token(o)).To(Equal([]string{tc.token, ""}[i]), o.Name)
				g.Expect(o.ResourceVersion).To(Equal([]string{"7", ""}[i]), o.Name)
			}
		})
	}
}
