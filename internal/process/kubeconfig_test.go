package process

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/config"
)

const allowed = "which is not supported; allowed are only client-certificate-data, client-key-data, token, tokenFile, username, password"

// kubeconfigWith returns a kubeconfig whose user has this YAML as its fields.
func kubeconfigWith(user string) string {
	return `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1", insecure-skip-tls-verify: true}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
users: [{name: u, user: ` + user + `}, {name: other, user: {}}]
`
}

func TestUnsupportedUsersOfAKubeconfigAreRejected(t *testing.T) {
	for user, want := range map[string]string{
		`{client-certificate: /c}`:                          "client-certificate",
		`{client-key: /k}`:                                  "client-key",
		`{client-certificate: /c, client-key: /k}`:          "client-certificate, client-key",
		`{as: root}`:                                        "as",
		`{as-uid: "0"}`:                                     "as-uid",
		`{as-groups: [a]}`:                                  "as-groups",
		`{as-user-extra: {a: [b]}}`:                         "as-user-extra",
		`{auth-provider: {name: oidc}}`:                     "auth-provider",
		`{exec: {apiVersion: v1, command: id}, token: sec}`: "exec",
	} {
		t.Run(user, func(t *testing.T) {
			file := writeFile(t, "kubeconfig", kubeconfigWith(user))
			_, err := restConfig(config.ClientConnection{Kubeconfig: file}, "agent")
			NewWithT(t).Expect(err).To(MatchError(`read kubeconfig "` + file + `": user "u" has ` + want + `, ` + allowed))
		})
	}
}

func TestSupportedUsersOfAKubeconfigAreUsed(t *testing.T) {
	for name, tc := range map[string]struct {
		user string
		want func(*rest.Config)
	}{
		"no user":  {user: `{}`, want: func(*rest.Config) {}},
		"a token":  {user: `{token: abc}`, want: func(c *rest.Config) { c.BearerToken = "abc" }},
		"password": {user: `{username: a, password: b}`, want: func(c *rest.Config) { c.Username, c.Password = "a", "b" }},
		"certificate and key": {user: `{client-certificate-data: Yw==, client-key-data: aw==}`, want: func(c *rest.Config) {
			c.CertData, c.KeyData = []byte("c"), []byte("k")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := restConfig(config.ClientConnection{Kubeconfig: writeFile(t, "kubeconfig", kubeconfigWith(tc.user))}, "agent")
			g.Expect(err).NotTo(HaveOccurred())
			want := &rest.Config{Host: "https://127.0.0.1:1", TLSClientConfig: rest.TLSClientConfig{Insecure: true}, UserAgent: "agent", QPS: -1}
			tc.want(want)
			g.Expect(got).To(Equal(want))
		})
	}
}

func TestATokenFileIsReadBesideTheKubeconfig(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(dir, "token"), []byte("abc"), 0o600)).To(Succeed())
	file := filepath.Join(dir, "kubeconfig")
	g.Expect(os.WriteFile(file, []byte(kubeconfigWith(`{tokenFile: token}`)), 0o600)).To(Succeed())
	got, err := restConfig(config.ClientConnection{Kubeconfig: file}, "agent")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.BearerToken).To(Equal("abc"))
	g.Expect(got.BearerTokenFile).To(Equal(filepath.Join(dir, "token")))
}

func TestKubeconfigsThatCannotBeRead(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	tokenAlone := writeFile(t, "kubeconfig", "very-secret-token")
	for name, tc := range map[string]struct{ file, want string }{
		"none, outside a cluster": {want: "no kubeconfig is named and this process does not run in a cluster"},
		"no such file": {
			file: "/does/not/exist", want: `read kubeconfig "/does/not/exist": open /does/not/exist: no such file or directory`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := restConfig(config.ClientConnection{Kubeconfig: tc.file}, "agent")
			NewWithT(t).Expect(err).To(MatchError(tc.want))
		})
	}
	t.Run("a token in place of a kubeconfig is not repeated", func(t *testing.T) {
		g := NewWithT(t)
		_, err := restConfig(config.ClientConnection{Kubeconfig: tokenAlone}, "agent")
		g.Expect(err).To(MatchError(HavePrefix(`read kubeconfig "` + tokenAlone + `": `)))
		g.Expect(err.Error()).NotTo(ContainSubstring("secret"))
	})
	t.Run("an empty one does not mean another cluster", func(t *testing.T) {
		_, err := restConfig(config.ClientConnection{Kubeconfig: writeFile(t, "kubeconfig", "")}, "agent")
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("no configuration has been provided")))
	})
}

func TestTuneConfig(t *testing.T) {
	base := func() *rest.Config { return &rest.Config{Host: "h", QPS: 5, Burst: 10, UserAgent: "x"} }
	for name, tc := range map[string]struct {
		connection config.ClientConnection
		want       *rest.Config
		limited    float32
	}{
		"no limit unless one is set": {want: &rest.Config{Host: "h", QPS: -1, UserAgent: "agent"}},
		"a negative rate is none": {
			connection: config.ClientConnection{QPS: -1, Burst: 130}, want: &rest.Config{Host: "h", QPS: -1, UserAgent: "agent"},
		},
		"a limit that is set": {
			connection: config.ClientConnection{QPS: 20, Burst: 40}, want: &rest.Config{Host: "h", QPS: 20, Burst: 40, UserAgent: "agent"},
			limited: 20,
		},
		"content types": {
			connection: config.ClientConnection{AcceptContentTypes: "a/b", ContentType: "c/d"},
			want: &rest.Config{
				Host: "h", QPS: -1, UserAgent: "agent", ContentConfig: rest.ContentConfig{AcceptContentTypes: "a/b", ContentType: "c/d"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			before := base()
			got := tuneConfig(before, tc.connection, "agent")
			g.Expect(before).To(Equal(base()), "what was handed in must not change")
			if tc.limited > 0 {
				g.Expect(got.RateLimiter.QPS()).To(Equal(tc.limited))
				free := withoutLimit(got)
				g.Expect(free).To(Equal(&rest.Config{Host: "h", QPS: -1, UserAgent: "agent"}))
				got.RateLimiter = nil
			}
			g.Expect(got).To(Equal(tc.want))
		})
	}
}
