package process

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// stored returns a kubeconfig whose current cluster and user have these fields. Another cluster and another user, which are not used, have
// fields that are not allowed.
func stored(cluster, user string) string {
	return "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: " + cluster + "}, {name: o, cluster: {server: \"http://o\"}}]\n" +
		"contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n" +
		"users: [{name: u, user: " + user + "}, {name: o, user: {exec: {apiVersion: v1, command: id}}}]\n"
}

func TestAStoredKubeconfigHasOnlyAnAddressAndCredentials(t *testing.T) {
	const address, token = `{server: "https://garden:6443/base"}`, `{token: sesame}`
	const only = "; allowed are only server, certificate-authority-data, client-certificate-data, client-key-data and token"
	for name, tc := range map[string]struct{ kubeconfig, want string }{
		"nothing": {"", "it is not a kubeconfig"},
		"no YAML": {"sesame: [", "it is not a kubeconfig"},
		"no context": {
			strings.Replace(stored(address, token),
				"current-context: x", "current-context: z", 1), `it has no current context "z"`,
		},
		"no cluster": {strings.Replace(stored(address, token), "cluster: c,", "cluster: d,", 1), `it has no cluster "d"`},
		"no user":    {strings.Replace(stored(address, token), "user: u}", "user: v}", 1), `it has no user "v"`},
		"no verification": {
			stored(`{server: "https://a", insecure-skip-tls-verify: true}`, token),
			"it has insecure-skip-tls-verify" + only,
		},
		"an authority in a file": {
			stored(`{server: "https://a", certificate-authority: /f}`, token),
			"it has certificate-authority" + only,
		},
		"a proxy":                    {stored(`{server: "https://a", proxy-url: "http://p"}`, token), "it has proxy-url" + only},
		"the name of another server": {stored(`{server: "https://a", tls-server-name: b}`, token), "it has tls-server-name" + only},
		"a program":                  {stored(address, `{exec: {apiVersion: v1, command: sesame}, token: a}`), "it has exec" + only},
		"files": {
			stored(address, `{client-certificate: /c, client-key: /k, tokenFile: /t}`),
			"it has client-certificate, client-key, tokenFile" + only,
		},
		"another user":               {stored(address, `{token: a, as: root}`), "it has as" + only},
		"a password":                 {stored(address, `{username: a, password: sesame}`), "it has username, password" + only},
		"no TLS":                     {stored(`{server: "http://a"}`, token), "its server is not an https address"},
		"credentials in the address": {stored(`{server: "https://a:sesame@b"}`, token), "its server is not an https address"},
		"no address":                 {stored(`{}`, token), "its server is not an https address"},
		"an authority that is none": {
			stored(`{server: "https://a", certificate-authority-data: c2VzYW1l}`, token),
			"its certificate authority has no certificate in PEM format",
		},
		"no credentials":                {stored(address, `{}`), "it has neither a token nor a client certificate"},
		"two kinds of credentials":      {stored(address, `{token: a, client-key-data: aw==}`), "it has a token and a client certificate"},
		"a certificate without its key": {stored(address, `{client-certificate-data: Yw==}`), "its client certificate and key do not match"},
		"a token with a line break":     {stored(address, `{token: "a\nb"}`), "its token has characters that no token has"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := StoredKubeconfig([]byte(tc.kubeconfig))
			g := NewWithT(t)
			g.Expect(err).To(MatchError(tc.want))
			g.Expect(err.Error()).NotTo(ContainSubstring("sesame"))
		})
	}
	t.Run("a token", func(t *testing.T) {
		g := NewWithT(t)
		config, err := StoredKubeconfig([]byte(stored(address, token)))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(config.Host).To(Equal("https://garden:6443/base"))
		g.Expect(config.BearerToken).To(Equal("sesame"))
		g.Expect(config.TLSClientConfig).To(BeZero())
	})
}
