package serving_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/espalier-dev/espalier/internal/admission/serving"
)

// patience is how long tests wait for something that takes milliseconds on an idle machine.
const patience = 30 * time.Second

// started is a webhook server that runs in this process.
type started struct {
	*serving.Server
	url  string
	stop context.CancelFunc
	done chan error
}

// start runs a server on the loopback address until the test ends. The handler answers requests to /hook.
func start(t *testing.T, options serving.Options, handler http.HandlerFunc, certificate ...serving.GetCertificate) *started {
	t.Helper()
	options.BindAddress = "127.0.0.1"
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	s := &started{Server: serving.New(options), done: make(chan error, 1)}
	for _, each := range certificate {
		s.GetCertificate = each
	}
	s.Register("/hook", handler)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s.stop = cancel
	t.Cleanup(cancel)
	go func() { s.done <- s.Start(ctx) }()
	NewWithT(t).Eventually(s.Port).WithTimeout(patience).WithPolling(time.Millisecond).ShouldNot(BeZero())
	s.url = "https://127.0.0.1:" + strconv.Itoa(s.Port()) + "/hook"
	return s
}

func answer(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "seen") }

// newClient returns a client that speaks one version of HTTP.
func newClient(t *testing.T, http2 bool) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: http2}
	if !http2 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// seen contains the properties of an answer that a client sees.
type seen struct {
	protocol, offered, certificate string
	// closes is true if the answer asks the client to close the connection.
	closes bool
}

// post sends a request. It returns an error unless the handler has answered.
func post(ctx context.Context, client *http.Client, url string) (seen, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"kind":"AdmissionReview"}`))
	if err != nil {
		return seen{}, err
	}
	response, err := client.Do(request)
	if err != nil {
		return seen{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && string(body) != "seen" {
		err = fmt.Errorf("answer %d %q", response.StatusCode, body)
	}
	return seen{
		protocol: response.Proto, offered: response.TLS.NegotiatedProtocol,
		certificate: response.TLS.PeerCertificates[0].Subject.CommonName, closes: response.Close,
	}, err
}

func ready(t *testing.T, s *serving.Server) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", http.NoBody)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return s.StartedChecker()(request)
}

func TestBothVersionsOfHTTPAreServed(t *testing.T) {
	s := start(t, serving.Options{CertDir: certDir(t, "one")}, answer)
	for name, tc := range map[string]struct {
		http2    bool
		protocol string
		offered  string
	}{
		"HTTP/2, as API servers speak to URLs of their own host": {true, "HTTP/2.0", "h2"},
		"HTTP/1.1, as they speak to Services and other hosts":    {false, "HTTP/1.1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			response, err := post(t.Context(), newClient(t, tc.http2), s.url)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(response.protocol).To(Equal(tc.protocol))
			g.Expect(response.offered).To(Equal(tc.offered))
			g.Expect(response.certificate).To(Equal("one"))
		})
	}
	t.Run("an unknown path", func(t *testing.T) {
		_, err := post(t.Context(), newClient(t, true), s.url+"/more")
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("answer 404")))
	})
	t.Run("a path twice", func(t *testing.T) {
		NewWithT(t).Expect(func() { s.Register("/hook", http.HandlerFunc(answer)) }).To(Panic())
	})
}

func TestReadiness(t *testing.T) {
	g := NewWithT(t)
	failing := errors.New("there is no certificate yet")
	var certificate *tls.Certificate
	options := serving.Options{Clock: clocktesting.NewFakeClock(time.Now()), ShutdownDelay: time.Minute}
	g.Expect(ready(t, serving.New(options))).To(MatchError("webhook server has not been started yet"))

	s := start(t, options, answer, func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if certificate == nil {
			return nil, failing
		}
		return certificate, nil
	})
	g.Expect(ready(t, s.Server)).To(MatchError("webhook server cannot serve: there is no certificate yet"))
	pair, err := tls.LoadX509KeyPair(writePair(t, t.TempDir(), "one"))
	g.Expect(err).NotTo(HaveOccurred())
	certificate = &pair
	g.Expect(ready(t, s.Server)).To(Succeed())

	s.stop()
	g.Eventually(func() error { return ready(t, s.Server) }).WithTimeout(patience).WithPolling(time.Millisecond).Should(
		MatchError("webhook server is shutting down: it answers what still arrives, new connections belong elsewhere"))
	_, err = post(t.Context(), newClient(t, true), s.url)
	g.Expect(err).NotTo(HaveOccurred(), "it must go on serving")
}

func TestReadinessFindsAServerThatDoesNotAnswer(t *testing.T) {
	g := NewWithT(t)
	wrong := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &tls.Certificate{}, nil }
	s := start(t, serving.Options{}, answer, wrong)
	g.Expect(ready(t, s.Server)).To(MatchError(HavePrefix("webhook server is not reachable: ")))
}

func TestATakenPortIsAnError(t *testing.T) {
	g := NewWithT(t)
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = listener.Close() }()
	address, ok := listener.Addr().(*net.TCPAddr)
	g.Expect(ok).To(BeTrue())
	s := serving.New(serving.Options{BindAddress: "127.0.0.1", Port: address.Port, CertDir: certDir(t, "one"), Clock: clock.RealClock{}})
	g.Expect(s.Start(t.Context())).To(MatchError(And(HavePrefix("listen for webhooks: "), ContainSubstring("address already in use"))))
	g.Expect(s.Port()).To(BeZero())
}

func TestUnusableFilesAreAFatalErrorWithARemedy(t *testing.T) {
	for name, tc := range map[string]struct {
		corrupt func(t *testing.T, dir string)
		want    string
	}{
		"no file": {
			func(t *testing.T, dir string) { t.Helper(); remove(t, filepath.Join(dir, "tls.crt")) },
			"read certificate of webhook server: open DIR/tls.crt: no such file or directory; put tls.crt and tls.key, which belong together, " +
				"into DIR, or change server.webhooks.tls.serverCertDir",
		},
		"no key": {
			func(t *testing.T, dir string) { t.Helper(); remove(t, filepath.Join(dir, "tls.key")) },
			"read certificate of webhook server: open DIR/tls.key: no such file or directory; put tls.crt and tls.key, which belong together, " +
				"into DIR, or change server.webhooks.tls.serverCertDir",
		},
		"a key of another certificate": {
			func(t *testing.T, dir string) {
				t.Helper()
				_, key := writePair(t, t.TempDir(), "two")
				copyFile(t, key, filepath.Join(dir, "tls.key"))
			},
			"read certificate of webhook server: tls: private key does not match public key; put tls.crt and tls.key, which belong together, " +
				"into DIR, or change server.webhooks.tls.serverCertDir",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := certDir(t, "one")
			tc.corrupt(t, dir)
			err := serving.New(serving.Options{CertDir: dir, Clock: clock.RealClock{}}).Start(t.Context())
			NewWithT(t).Expect(err).To(MatchError(strings.ReplaceAll(tc.want, "DIR", dir)))
		})
	}
}

func TestTwoFilesOfAnyNameAreEnough(t *testing.T) {
	g := NewWithT(t)
	certificate, key := writePair(t, t.TempDir(), "one")
	dir := t.TempDir()
	options := serving.Options{
		CertFile: filepath.Join(dir, "server.pem"), KeyFile: filepath.Join(dir, "server-key.pem"), Setting: "a.b", Clock: clock.RealClock{},
	}
	g.Expect(serving.New(options).Start(t.Context())).To(MatchError("read certificate of webhook server: open " + dir +
		"/server.pem: no such file or directory; the two files must exist and belong together, or change a.b"))
	copyFile(t, certificate, options.CertFile)
	copyFile(t, key, options.KeyFile)
	s := start(t, options, answer)
	response, err := post(t.Context(), newClient(t, false), s.url)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(response.certificate).To(Equal("one"))
}

func TestTheDefaultFolderIsTheLibrarys(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	err := serving.New(serving.Options{Clock: clock.RealClock{}}).Start(t.Context())
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("open " + os.Getenv("TMPDIR") + "/k8s-webhook-server/serving-certs/tls.crt: ")))
}

func TestFilesAreReadAgain(t *testing.T) {
	shown := func(t *testing.T, s *started) func() (string, error) {
		t.Helper()
		return func() (string, error) {
			response, err := post(t.Context(), newClient(t, false), s.url)
			if err != nil {
				return "", err
			}
			return response.certificate, nil
		}
	}
	t.Run("after they were written over", func(t *testing.T) {
		g := NewWithT(t)
		dir := certDir(t, "one")
		s := start(t, serving.Options{CertDir: dir}, answer)
		g.Expect(shown(t, s)()).To(Equal("one"))
		writePair(t, dir, "two")
		g.Eventually(shown(t, s)).WithTimeout(patience).Should(Equal("two"))
	})
	t.Run("after the swap of a mounted Secret, several times", func(t *testing.T) {
		g := NewWithT(t)
		mount := newMount(t, "one")
		s := start(t, serving.Options{CertDir: mount.dir}, answer)
		g.Expect(shown(t, s)()).To(Equal("one"))
		for _, name := range []string{"two", "three", "four"} {
			mount.swap(t, name)
			g.Eventually(shown(t, s)).WithTimeout(patience).Should(Equal(name))
		}
	})
	t.Run("but what cannot be read leaves the pair before in use", func(t *testing.T) {
		g := NewWithT(t)
		dir := certDir(t, "one")
		s := start(t, serving.Options{CertDir: dir}, answer)
		g.Expect(os.WriteFile(filepath.Join(dir, "tls.crt"), []byte("garbage"), 0o600)).To(Succeed())
		g.Consistently(shown(t, s)).WithTimeout(time.Second).WithPolling(50 * time.Millisecond).Should(Equal("one"))
		remove(t, filepath.Join(dir, "tls.key"))
		g.Consistently(shown(t, s)).WithTimeout(time.Second).WithPolling(50 * time.Millisecond).Should(Equal("one"))
		writePair(t, dir, "two")
		g.Eventually(shown(t, s)).WithTimeout(patience).Should(Equal("two"))
	})
}
