package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/espalier-dev/espalier/test/local"
)

// inCluster is the variable by which a process detects that it runs in a cluster.
const inCluster = "KUBERNETES_SERVICE_HOST=10.0.0.1"

// elsewhere writes a kubeconfig in which the API server has another address.
func elsewhere(t *testing.T, server local.Server, address string) string {
	t.Helper()
	g := NewWithT(t)
	file := adminFile(t, server)
	found, err := clientcmd.LoadFromFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	for _, each := range found.Clusters {
		each.Server = "https://" + address
	}
	data, err := clientcmd.Write(*found)
	g.Expect(err).NotTo(HaveOccurred())
	return writeFile(t, "elsewhere", string(data))
}

// forward starts to forward connections from an address to the API server.
func forward(t *testing.T, address string, server local.Server) {
	t.Helper()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", address)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", strings.TrimPrefix(server.Config.Host, "https://")) //nolint:noctx // ends with the listener
			if err != nil {
				_ = from.Close()
				continue
			}
			go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
			go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
		}
	}()
}

func TestAProcessInAClusterWaitsForItsAPIServer(t *testing.T) {
	s := servers(t)
	namespace := newNamespace(t, admin(t, s.Source))
	address := "127.0.0.1:" + strconv.Itoa(freePort(t))
	p := start(t, roleGardener, configIn(namespace, ""), "KUBECONFIG="+elsewhere(t, s.Source, address), inCluster)
	p.awaitOutput(t, `"msg":"Waiting for the API server","cluster":"source","host":"https://`+address+`"`)
	p.awaitOutput(t, "connect: connection refused")
	forward(t, address, s.Source)
	p.awaitOutput(t, `"msg":"Leading"`)
}

func TestAProcessThatWaitsEndsAtASignal(t *testing.T) {
	s := servers(t)
	g := NewWithT(t)
	address := "127.0.0.1:" + strconv.Itoa(freePort(t))
	p := start(t, roleGardener, configIn("garden", ""), "KUBECONFIG="+elsewhere(t, s.Source, address), inCluster)
	p.awaitOutput(t, `"msg":"Waiting for the API server"`)
	p.signal(t)
	code, _ := p.ends(t)
	g.Expect(code).To(Equal(0))
}

// An error that waiting cannot resolve is reported at once, in a cluster too.
func TestAProcessInAClusterDoesNotWaitForAnotherMistake(t *testing.T) {
	s := servers(t)
	g := NewWithT(t)
	unknown := userFile(t, s.Source, &clientcmdapi.AuthInfo{Token: "of no user"})
	p := start(t, roleGardener, configIn("garden", ""), "KUBECONFIG="+unknown, inCluster)
	code, last := p.ends(t)
	g.Expect(code).To(Equal(1))
	g.Expect(last).To(ContainSubstring("does not accept our credentials"))
	g.Expect(p.out.String()).NotTo(ContainSubstring("Waiting"))
}

func TestOnlyAPodIsPatient(t *testing.T) {
	g := NewWithT(t)
	g.Expect(patience(func(string) string { return "" })).To(BeZero())
	g.Expect(patience(func(string) string { return "10.0.0.1" })).To(Equal(time.Minute))
}

func TestWhatIsAway(t *testing.T) {
	g := NewWithT(t)
	pods := schema.GroupResource{Resource: "pods"}
	secured := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secured.Close)
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(slow.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	ask := func(url string, limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		g.Expect(err).NotTo(HaveOccurred())
		response, err := (&http.Client{Transport: &http.Transport{}}).Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		g.Expect(err).To(HaveOccurred())
		return fmt.Errorf("cannot reach API server: %w", err)
	}
	_, unreadable := os.ReadFile(filepath.Join(t.TempDir(), "token"))
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"refused":         {ask("http://127.0.0.1:"+strconv.Itoa(freePort(t)), time.Minute), true},
		"no answer":       {ask(slow.URL, 100*time.Millisecond), true},
		"no turn in time": {fmt.Errorf("wait for a turn: %w", context.DeadlineExceeded), true},
		"hung up":         {&url.Error{Op: "Get", Err: io.EOF}, true},
		"closed by HTTP/2": {
			&url.Error{Op: "Get", Err: errors.New("http2: client connection force closed via ClientConn.Close")}, true,
		},
		"unavailable":                 {apierrors.NewServiceUnavailable("starting"), true},
		"overloaded":                  {apierrors.NewTooManyRequests("later", 1), true},
		"broken":                      {apierrors.NewInternalError(errors.New("etcd is away")), true},
		"the server of an aggregated": {absence{errors.New("kind Bonsai cannot be discovered")}, true},
		"forbidden":                   {apierrors.NewForbidden(pods, "", errors.New("no")), false},
		"unknown":                     {apierrors.NewUnauthorized("who?"), false},
		"not found":                   {apierrors.NewNotFound(pods, "a"), false},
		"another certificate":         {ask(secured.URL, time.Minute), false},
		"our certificate": {
			&url.Error{Op: "Get", Err: &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}}, false,
		},
		"no TLS":  {ask("https"+strings.TrimPrefix(plain.URL, "http"), time.Minute), false},
		"a file":  {&url.Error{Op: "Get", Err: unreadable}, false},
		"another": {errors.New("create discovery client"), false},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(isAway(tc.err)).To(Equal(tc.want), "%v", tc.err) })
	}
}

// answers starts an API server that returns one status after another, the last one forever; 0 means its normal answer.
func answers(t *testing.T, statuses ...int) (server *httptest.Server, asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		status := statuses[min(int(asked.Add(1)), len(statuses))-1]
		if status != 0 {
			http.Error(w, http.StatusText(status), status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[]}`))
	}))
	t.Cleanup(server.Close)
	return server, asked
}

func TestHowLongAccessIsAwaited(t *testing.T) {
	for name, tc := range map[string]struct {
		statuses []int
		patience time.Duration
		asked    int
		want     string
	}{
		"it is there": {[]int{0}, time.Minute, 1, ""},
		"it comes back and authenticates no user at first": {[]int{503, 503, 403, 401, 0}, time.Minute, 5, ""},
		"it never comes back":                              {[]int{503}, 5 * time.Second, 5, "cannot reach API server"},
		"it comes back and does not know us":               {[]int{503, 401}, 3 * time.Second, 3, "does not accept our credentials"},
		"it does not know us":                              {[]int{401, 0}, time.Minute, 1, "does not accept our credentials"},
		"the timeout is zero":                              {[]int{503, 0}, 0, 1, "cannot reach API server"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server, asked := answers(t, tc.statuses...)
			fake := clocktesting.NewFakeClock(time.Now())
			setup := &Setup{Program: gardener(), Log: logr.Discard(), Clock: fake}
			ended := make(chan error, 1)
			go func() {
				from := &Connection{Config: &rest.Config{Host: server.URL}, HTTPClient: &http.Client{}}
				ended <- setup.awaitAccess(t.Context(), side{name: "source"}, from, nil, nil, fake.Now().Add(tc.patience))
			}()
			var err error
			g.Eventually(func() bool {
				if fake.HasWaiters() {
					fake.Step(pause)
				}
				select {
				case err = <-ended:
					return true
				default:
					return false
				}
			}).WithTimeout(testPatience).WithPolling(time.Millisecond).Should(BeTrue())
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
			}
			g.Expect(int(asked.Load())).To(Equal(tc.asked))
		})
	}
}

// outdatedUntil starts an API server whose discovery marks the kinds of a group as outdated in the first answers.
func outdatedUntil(t *testing.T, answers int32) (server *httptest.Server, asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	group := func(name, kind string, freshness apidiscoveryv2.DiscoveryFreshness) apidiscoveryv2.APIGroupDiscoveryList {
		return apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Versions: []apidiscoveryv2.APIVersionDiscovery{{Version: "v1", Freshness: freshness, Resources: []apidiscoveryv2.APIResourceDiscovery{{
				Resource: strings.ToLower(kind) + "s", Scope: apidiscoveryv2.ScopeCluster,
				ResponseKind: &metav1.GroupVersionKind{Group: name, Version: "v1", Kind: kind},
			}}}},
		}}}
	}
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any
		switch r.URL.Path {
		case "/api":
			w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
			answer = group("", "Pod", apidiscoveryv2.DiscoveryFreshnessCurrent)
		case "/apis":
			w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
			freshness := apidiscoveryv2.DiscoveryFreshnessCurrent
			if asked.Add(1) < answers {
				freshness = apidiscoveryv2.DiscoveryFreshnessStale
			}
			answer = group("a.example.com", "Apple", freshness)
		case "/apis/a.example.com/v1":
			w.Header().Set("Content-Type", "application/json")
			answer = metav1.APIResourceList{GroupVersion: "a.example.com/v1", APIResources: []metav1.APIResource{{Name: "apples", Kind: "Apple"}}}
		default:
			w.Header().Set("Content-Type", "application/json")
			answer = metav1.APIResourceList{GroupVersion: "v1"}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return server, asked
}

func TestOutdatedDiscoveryOfARequiredKindIsAwaited(t *testing.T) {
	for name, tc := range map[string]struct {
		answers  int32
		patience time.Duration
		want     types.GomegaMatcher
	}{
		"current":                      {1, 0, Succeed()},
		"current after a while":        {3, time.Minute, Succeed()},
		"outdated without any waiting": {3, 0, MatchError(ContainSubstring("stale GroupVersion discovery"))},
		"outdated until the deadline":  {1000, 3 * time.Second, MatchError(ContainSubstring("stale GroupVersion discovery"))},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server, asked := outdatedUntil(t, tc.answers)
			fake := clocktesting.NewFakeClock(time.Now())
			setup := &Setup{Program: gardener(), Log: logr.Discard(), Clock: fake}
			from := &Connection{Config: &rest.Config{Host: server.URL}, HTTPClient: &http.Client{}}
			var err error
			from.Mapper, err = NewMapper(from.Config, from.HTTPClient, fake, noMatchAge)
			g.Expect(err).NotTo(HaveOccurred())
			required := []Requirement{{Kind: apple().WithVersion("v1")}}
			ended := make(chan error, 1)
			go func() {
				ended <- setup.awaitAccess(t.Context(), side{name: "source"}, from, required, nil, fake.Now().Add(tc.patience))
			}()
			g.Eventually(func() bool {
				if fake.HasWaiters() {
					fake.Step(pause)
				}
				select {
				case err = <-ended:
					return true
				default:
					return false
				}
			}).WithTimeout(testPatience).WithPolling(time.Millisecond).Should(BeTrue())
			g.Expect(err).To(tc.want)
			g.Expect(asked.Load()).To(BeNumerically("<=", max(tc.answers, 2)))
		})
	}
}
