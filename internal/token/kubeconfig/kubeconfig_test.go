package kubeconfig_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/espalier-dev/espalier/internal/token/kubeconfig"
)

const twoUsers = `apiVersion: v1
kind: Config
current-context: here
contexts:
- {name: there, context: {cluster: c, user: other}}
- {name: here, context: {cluster: c, user: me}}
clusters:
- {name: c, cluster: {server: "https://api.example.com", certificate-authority-data: Y2E=}}
users:
- {name: other, user: {token: others}}
- {name: me, user: {token: old}}
`

func TestOnlyTheCurrentContextChanges(t *testing.T) {
	for name, input := range map[string]string{"YAML": twoUsers, "JSON": `{"apiVersion":"v1","kind":"Config","current-context":"here",
"contexts":[{"name":"there","context":{"cluster":"c","user":"other"}},{"name":"here","context":{"cluster":"c","user":"me"}}],
"clusters":[{"name":"c","cluster":{"server":"https://api.example.com","certificate-authority-data":"Y2E="}}],
"users":[{"name":"other","user":{"token":"others"}},{"name":"me","user":{"token":"old"}}]}`} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			config, err := kubeconfig.Decode([]byte(input))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(config.Token()).To(Equal("old"))
			g.Expect(config.CA()).To(BeEquivalentTo("ca"))
			config.SetToken("new")
			g.Expect(config.SetCA([]byte("other"))).To(Succeed())
			encoded, err := config.Encode()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(encoded)).To(HavePrefix("apiVersion: v1\n"), "it is YAML")

			want, err := clientcmd.Load([]byte(twoUsers))
			g.Expect(err).NotTo(HaveOccurred())
			want.AuthInfos["me"].Token = "new"
			want.Clusters["c"].CertificateAuthorityData = []byte("other")
			got, err := clientcmd.Load(encoded)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(BeComparableTo(want))
		})
	}
}

// A client that reads the result must accept it and authenticate with the token.
func TestFieldsThatKeepClientsFromUsingTheTokenAreRemoved(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster, user string
		want          []string
	}{
		"nothing to remove":    {user: "impersonate: someone"},
		"a file with a token":  {user: "tokenFile: /var/run/token", want: []string{"tokenFile"}},
		"a user name":          {user: "username: admin, password: x", want: []string{"username", "password"}},
		"a client certificate": {user: "client-certificate: a.crt, client-key: a.key", want: []string{"client-certificate", "client-key"}},
		"an auth provider":     {user: "auth-provider: {name: oidc}", want: []string{"auth-provider"}},
		"a client certificate in PEM": {
			user: "client-certificate-data: YQ==, client-key-data: YQ==", want: []string{"client-certificate-data", "client-key-data"},
		},
		"an exec plugin": {
			user: "exec: {apiVersion: client.authentication.k8s.io/v1, command: oidc, interactiveMode: Never}",
		},
		"an insecure cluster": {cluster: ", insecure-skip-tls-verify: true", want: []string{"insecure-skip-tls-verify"}},
		"a file with an authority": {
			cluster: ", certificate-authority: /does/not/exist", want: []string{"certificate-authority"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			config, err := kubeconfig.Decode([]byte(`{apiVersion: v1, kind: Config, current-context: x, ` +
				`contexts: [{name: x, context: {cluster: c, user: me}}], clusters: [{name: c, cluster: {server: "https://api.example.com"` +
				tc.cluster + `}}], users: [{name: me, user: {` + tc.user + `}}, {name: other, user: {username: a, password: b}}]}`))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(config.SetCA([]byte("ca"))).To(Succeed())
			config.SetToken("new")
			g.Expect(config.Removed()).To(Equal(tc.want))
			encoded, err := config.Encode()
			g.Expect(err).NotTo(HaveOccurred())
			client, err := clientcmd.RESTConfigFromKubeConfig(encoded)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(client.BearerToken).To(Equal("new"))
			g.Expect(client.BearerTokenFile + client.Username + client.Password + string(client.CertData) + client.CertFile).To(BeEmpty())
			g.Expect(client.AuthProvider).To(BeNil())
			g.Expect(client.Insecure).To(BeFalse())
			g.Expect(client.ExecProvider != nil).To(Equal(name == "an exec plugin"))
			all, err := clientcmd.Load(encoded)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(all.AuthInfos["other"].Username).To(Equal("a"))
		})
	}
}

// The exec plugin of a kubeconfig stays. The command of this plugin does not exist, so a client that ran it would fail.
func TestTokenWinsOverExecPlugin(t *testing.T) {
	g := NewWithT(t)
	authorization := make(chan string, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		authorization <- r.Header.Get("Authorization")
	}))
	defer server.Close()
	config, err := kubeconfig.Decode([]byte(`{apiVersion: v1, kind: Config, current-context: x, ` +
		`contexts: [{name: x, context: {cluster: c, user: me}}], clusters: [{name: c, cluster: {server: "` + server.URL + `"}}], ` +
		`users: [{name: me, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /does/not/exist, interactiveMode: Never}}}]}`))
	g.Expect(err).NotTo(HaveOccurred())
	config.SetToken("new")
	g.Expect(config.SetCA(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))).To(Succeed())
	encoded, err := config.Encode()
	g.Expect(err).NotTo(HaveOccurred())
	read, err := clientcmd.RESTConfigFromKubeConfig(encoded)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(read.ExecProvider).NotTo(BeNil())
	client, err := rest.HTTPClientFor(read)
	g.Expect(err).NotTo(HaveOccurred())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	response, err := client.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(response.Body.Close()).To(Succeed())
	g.Expect(authorization).To(Receive(Equal("Bearer new")))
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	for name, tc := range map[string]struct{ input, want string }{
		"nothing at all": {input: "", want: "kubeconfig has no current-context: name the context whose user shall get the token"},
		"no current context": {
			input: "{apiVersion: v1, kind: Config}", want: "kubeconfig has no current-context: name the context whose user shall get the token",
		},
		"a context that is missing": {
			input: "{apiVersion: v1, kind: Config, current-context: x}",
			want:  `kubeconfig has no context "x", which current-context names: add it, or name another one`,
		},
		"a user that is missing": {
			input: "{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {user: u}}], users: [{name: v, user: {}}]}",
			want:  `kubeconfig has no user "u", which context "x" names: add it, or name another one`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kubeconfig.Decode([]byte(tc.input))
			NewWithT(t).Expect(err).To(MatchError(tc.want))
		})
	}
}

func TestACertificateAuthorityNeedsACluster(t *testing.T) {
	g := NewWithT(t)
	config, err := kubeconfig.Decode([]byte("{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {user: u, " +
		"cluster: c}}], users: [{name: u, user: {}}]}"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.CA()).To(BeNil())
	g.Expect(config.SetCA([]byte("ca"))).To(MatchError(`kubeconfig has no cluster "c", which context "x" names: add it, or name another one`))
}

// If a kubeconfig can be decoded, a token can be set in it and read again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		twoUsers, "", "{}", "[]", "text", "{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x}], users: [{name: \"\"}]}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := kubeconfig.Decode(data)
		if err != nil {
			return
		}
		config.SetToken("a-token")
		encoded, err := config.Encode()
		if err != nil {
			return
		}
		again, err := kubeconfig.Decode(encoded)
		if err != nil {
			t.Fatalf("decode what was encoded: %v", err)
		}
		if again.Token() != "a-token" {
			t.Fatalf("token is %q", again.Token())
		}
	})
}
