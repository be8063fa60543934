package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// peer is a sidecar that reports one state of the initialization after another, the last one forever. It also serves the health of etcd.
type peer struct {
	mu       sync.Mutex
	states   []string
	requests []string
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.URL.Path {
	case "/initialization/status":
		_, _ = io.WriteString(w, p.states[0])
		if len(p.states) > 1 {
			p.states = p.states[1:]
		}
		return
	case "/config":
		_, _ = io.WriteString(w, "name: etcd-0\n")
	}
	p.requests = append(p.requests, r.URL.RequestURI())
}

func (p *peer) requestURIs() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

func silent() *log.Logger { return log.New(io.Discard, "", 0) }

func TestInitializationFollowsTheSidecar(t *testing.T) {
	for sentence, tc := range map[string]struct {
		states, want []string
	}{
		"it is started":              {states: []string{"New", "Progress", "Successful"}, want: []string{"sanity"}},
		"it goes on after a restart": {states: []string{"Progress", "Progress", "Successful"}},
		"a failure leads to the full check": {
			states: []string{"New", "Failed", "New", "Successful"}, want: []string{"sanity", "full"},
		},
		"an answer that is not understood is asked for again": {
			states: []string{"", "New", "Successful"}, want: []string{"sanity"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			p := &peer{states: tc.states}
			server := httptest.NewServer(p)
			defer server.Close()
			c := &sidecar{client: server.Client(), url: server.URL, log: silent(), interval: time.Millisecond, pause: time.Millisecond}
			g.Expect(c.prepare(t.Context(), sanity)).To(BeEquivalentTo("name: etcd-0\n"))
			want := make([]string, 0, len(tc.want)+1)
			for _, mode := range tc.want {
				want = append(want, "/initialization/start?mode="+mode)
			}
			g.Expect(p.requestURIs()).To(Equal(append(want, "/config")))
		})
	}
}

func TestSidecarIsVerified(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewTLSServer(&peer{states: []string{"Successful"}})
	defer server.Close()
	address := server.Listener.Addr().String()
	files := writeCertificate(t, server)
	trusted, err := newSidecar(settings{sidecar: address, sidecarTLS: true, sidecarCA: filepath.Join(files, "tls.crt")}, silent())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(get(t.Context(), trusted.client, trusted.url+"/config", time.Minute)).NotTo(BeEmpty())
	trusted.url = strings.Replace(trusted.url, "127.0.0.1", "localhost", 1)
	_, err = get(t.Context(), trusted.client, trusted.url+"/config", time.Minute)
	g.Expect(err).To(MatchError(ContainSubstring("certificate is valid for example.com")))
}

// writeCertificate writes the certificate of a server, which is also its own authority, and returns the folder.
func writeCertificate(t *testing.T, server *httptest.Server) string {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	g.Expect(err).NotTo(HaveOccurred())
	for name, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: server.Certificate().Raw}, "tls.key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		g.Expect(os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600)).To(Succeed())
	}
	return dir
}

// pod returns settings for a run with a sidecar. A shell script replaces etcd.
func pod(t *testing.T, p *peer, script string) settings {
	t.Helper()
	g := NewWithT(t)
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	clientPort, err := strconv.Atoi(port)
	g.Expect(err).NotTo(HaveOccurred())
	dir := t.TempDir()
	s := settings{
		sidecar: net.JoinHostPort(host, port), serverName: host, clientPort: clientPort, port: freePort(t),
		etcd: filepath.Join(dir, "etcd"), data: dir, config: filepath.Join(dir, "etcd.conf.yaml"),
	}
	g.Expect(os.WriteFile(s.etcd, []byte("#!/bin/sh\n"+script), 0o700)).To(Succeed())
	return s
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	defer func() { _ = listener.Close() }()
	return int(netip.MustParseAddrPort(listener.Addr().String()).Port())
}

// runs is a script that waits for SIGTERM and then ends in order. It fails unless its configuration comes from the sidecar.
const runs = `grep -q "name: etcd-0" "${1#--config-file=}" || exit 3
trap 'kill $!; exit 0' TERM
sleep 60 & wait
`

func TestOrderlyRun(t *testing.T) {
	g := NewWithT(t)
	p := &peer{states: []string{"New", "Successful", "New", "Successful"}}
	s := pod(t, p, runs)
	url := fmt.Sprintf("http://127.0.0.1:%d", s.port)
	ready := func() (int, error) { return status(http.Get(url + "/readyz")) }

	done := make(chan error, 1)
	go func() { done <- run(t.Context(), s, silent()) }()
	g.Eventually(ready).WithTimeout(10 * time.Second).Should(Equal(http.StatusOK))
	g.Expect(status(http.Post(url+"/stop", "", nil))).To(Equal(http.StatusOK))
	g.Eventually(done).WithTimeout(10 * time.Second).Should(Receive(BeNil()))
	g.Expect(os.ReadFile(s.marker())).To(BeEquivalentTo("terminated"))

	ctx, stop := context.WithCancel(t.Context())
	go func() { done <- run(ctx, s, silent()) }()
	g.Eventually(ready).WithTimeout(10 * time.Second).Should(Equal(http.StatusOK))
	g.Expect(s.marker()).NotTo(BeAnExistingFile())
	stop()
	g.Eventually(done).WithTimeout(10 * time.Second).Should(Receive(BeNil()))
	g.Expect(p.requestURIs()).To(ContainElements("/initialization/start?mode=full", "/initialization/start?mode=sanity"))
}

func status(response *http.Response, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func TestFailuresLeaveNoMarker(t *testing.T) {
	g := NewWithT(t)
	s := pod(t, &peer{states: []string{"Successful"}}, "exit 0\n")
	g.Expect(run(t.Context(), s, silent())).To(MatchError(ContainSubstring("etcd has stopped")))
	g.Expect(s.marker()).NotTo(BeAnExistingFile())

	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf(":%d", s.port))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = taken.Close() }()
	g.Expect(run(t.Context(), s, silent())).To(MatchError(ContainSubstring("listen")))
}

func TestStopBeforeTheStart(t *testing.T) {
	g := NewWithT(t)
	s := pod(t, &peer{states: []string{"Progress"}}, "exit 3\n")
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	g.Expect(run(ctx, s, silent())).To(Succeed())
	g.Expect(s.marker()).NotTo(BeAnExistingFile())
}

func TestServerWithTLS(t *testing.T) {
	g := NewWithT(t)
	source := httptest.NewTLSServer(http.NotFoundHandler())
	defer source.Close()
	files := writeCertificate(t, source)
	s := settings{port: freePort(t), clientCert: filepath.Join(files, "tls.crt"), certificates: files}
	e := &etcd{}
	ctx, stop := context.WithCancel(t.Context())
	own := &server{ready: &e.ready, stop: stop}
	g.Expect(own.listen(ctx, s)).To(Succeed())
	done := make(chan error, 1)
	go func() { done <- own.serve(ctx) }()
	client := source.Client()
	g.Expect(status(client.Get(fmt.Sprintf("https://127.0.0.1:%d/readyz", s.port)))).To(Equal(http.StatusServiceUnavailable))
	e.ready.Store(true)
	g.Expect(status(client.Get(fmt.Sprintf("https://127.0.0.1:%d/readyz", s.port)))).To(Equal(http.StatusOK))
	client.CloseIdleConnections()
	stop()
	g.Eventually(done).WithTimeout(10 * time.Second).Should(Receive(BeNil()))
}

func TestFlagsOfEtcdDruid(t *testing.T) {
	g := NewWithT(t)
	s, err := parse([]string{
		"start-etcd", "--backup-restore-host-port=main-local:8080", "--backup-restore-tls-enabled=true",
		"--backup-restore-ca-cert-bundle-path=/var/etcdbr/ssl/ca/bundle.crt", "--etcd-server-name=main-local",
		"--etcd-client-cert-path=/var/etcd/ssl/client/tls.crt", "--etcd-client-key-path=/var/etcd/ssl/client/tls.key",
		"--etcd-client-port=2379", "--etcd-wrapper-port=9095",
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s).To(Equal(settings{
		sidecar: "main-local:8080", sidecarTLS: true, sidecarCA: "/var/etcdbr/ssl/ca/bundle.crt", serverName: "main-local",
		clientCert: "/var/etcd/ssl/client/tls.crt", clientKey: "/var/etcd/ssl/client/tls.key", clientPort: 2379, port: 9095,
		etcd: "/etcd", data: "/var/etcd/data", config: "/tmp/etcd.conf.yaml", certificates: "/var/etcd/ssl/server",
	}))
	_, err = parse([]string{"start-etcd"})
	g.Expect(err).To(MatchError(ContainSubstring("are required")))
	_, err = parse(nil)
	g.Expect(err).To(MatchError(ContainSubstring("usage")))
}

func TestUnreadableCertificates(t *testing.T) {
	g := NewWithT(t)
	empty := filepath.Join(t.TempDir(), "bundle.crt")
	g.Expect(os.WriteFile(empty, bytes.Repeat([]byte("a"), 10), 0o600)).To(Succeed())
	_, err := newSidecar(settings{sidecarTLS: true, sidecarCA: empty}, silent())
	g.Expect(err).To(MatchError(ContainSubstring("unable to load root certificates")))
	_, err = newSidecar(settings{sidecarTLS: true, sidecarCA: empty + "x"}, silent())
	g.Expect(errors.Is(err, os.ErrNotExist)).To(BeTrue())
}
