package main

import (
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// apiServer answers 200 for the token "good", 403 for any other token, and 401 without a token.
func apiServer(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Authorization") {
		case "Bearer good":
			_, _ = w.Write([]byte("fine"))
		case "":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestFetch(t *testing.T) {
	server := apiServer(t)
	dir := t.TempDir()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	kubeconfigOf := func(token string) string {
		return "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n" +
			"clusters: [{name: k, cluster: {server: \"" + server.URL + "\", certificate-authority-data: " +
			base64.StdEncoding.EncodeToString(authority) + "}}]\n" +
			"users: [{name: u, user: {token: " + token + "}}]\n"
	}
	for name, content := range map[string]string{
		"good": "good\n", "bad": "bad", "ca": string(authority), "kubeconfig": kubeconfigOf("good"), "empty": "current-context: none",
	} {
		NewWithT(t).Expect(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)).To(Succeed())
	}
	file := func(name string) string { return filepath.Join(dir, name) }

	for name, tc := range map[string]struct {
		args   []string
		output string
		code   int
	}{
		"a good token": {args: []string{"-ca", file("ca"), "-token", file("good"), server.URL}, output: "200\nfine\n"},
		"a bad token": {
			args: []string{"-ca", file("ca"), "-token", file("bad"), server.URL}, output: "403\n\n",
			code: 1,
		},
		"a bad token, as expected": {
			args:   []string{"-want", "403", "-ca", file("ca"), "-token", file("bad"), server.URL},
			output: "403\n\n",
		},
		"no token":                               {args: []string{"-ca", file("ca"), server.URL}, output: "401\n\n", code: 1},
		"a kubeconfig, and a path of its server": {args: []string{"-kubeconfig", file("kubeconfig"), "/path"}, output: "200\nfine\n"},
		"a kubeconfig without its context": {
			args:   []string{"-kubeconfig", file("empty"), "/path"},
			output: "read " + file("empty") + `: it has no context "none"` + "\n", code: 1,
		},
		"no authority": {args: []string{"-token", file("good"), server.URL}, output: "certificate", code: 1},
		"no URL":       {args: []string{"-want", "200"}, code: 2},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var out strings.Builder
			code := report(run(t.Context(), append([]string{"fetch"}, tc.args...), &out))
			g.Expect(code).To(Equal(tc.code))
			g.Expect(out.String()).To(ContainSubstring(tc.output))
		})
	}
}

func TestServe(t *testing.T) {
	server := httptest.NewServer(handler())
	defer server.Close()
	get := func(path string) int {
		t.Helper()
		answer, err := http.Get(server.URL + path)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		defer answer.Body.Close()
		return answer.StatusCode
	}
	g := NewWithT(t)
	g.Expect(get("/")).To(Equal(http.StatusOK))
	g.Expect(get("/readyz")).To(Equal(http.StatusOK))
	g.Expect(get("/readyz?ready=false")).To(Equal(http.StatusOK))
	g.Expect(get("/readyz")).To(Equal(http.StatusServiceUnavailable))
	g.Expect(get("/")).To(Equal(http.StatusOK))
	g.Expect(get("/readyz?ready=true")).To(Equal(http.StatusOK))
	g.Expect(get("/readyz")).To(Equal(http.StatusOK))
}

func TestCommands(t *testing.T) {
	server := httptest.NewServer(handler())
	defer server.Close()
	file := filepath.Join(t.TempDir(), "file")
	NewWithT(t).Expect(os.WriteFile(file, []byte("content"), 0o600)).To(Succeed())
	for name, tc := range map[string]struct {
		args   []string
		output string
		code   int
	}{
		"an open port":           {args: []string{"dial", strings.TrimPrefix(server.URL, "http://")}, output: "connected\n"},
		"a port without server":  {args: []string{"dial", "127.0.0.1:1"}, output: "connection refused", code: 1},
		"a file":                 {args: []string{"print", file}, output: "content"},
		"a file that is missing": {args: []string{"print", file + "s"}, output: "no such file", code: 1},
		"what ends again":        {args: []string{"fail"}, output: "failing, as told\n", code: 7},
		"nothing":                {code: 2},
		"what there is not":      {args: []string{"dance"}, code: 2},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var out strings.Builder
			g.Expect(report(run(t.Context(), tc.args, &out))).To(Equal(tc.code))
			g.Expect(out.String()).To(ContainSubstring(tc.output))
		})
	}
}
