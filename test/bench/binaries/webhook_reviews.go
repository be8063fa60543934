package binaries

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/registrations"
	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

// reviewBurst is how many reviews are sent at once.
const reviewBurst = 10

// review is the recorded body of an admission review, with its path.
type review struct {
	path string
	body []byte
}

// reviewFigures are the results of one load: times per request in ms.
type reviewFigures struct{ processor, median, tail float64 }

// target is a measured process.
type target struct{ pid, port int }

func (t target) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(t.port)) }

// podReviews returns the reviews about Pods.
func (w *webhook) podReviews() []review {
	var found []review
	for _, each := range registrations.Enabled("", w.cfg.Webhooks, registrations.Own{}) {
		if each.Rules[0].Resources[0] == "pods" {
			found = append(found, review{each.Path, w.recorded[each.Path]})
		}
	}
	return found
}

// send sends requests at a rate for a duration, in bursts, from one client with one connection.
func (w *webhook) send(to target, reviews []review, rate int, d time.Duration) reviewFigures {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.authority)
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}}
	c := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	defer c.CloseIdleConnections()
	w.post(c, to, reviews[0]) // opens the connection
	before, err := harness.UsageOf(to.pid)
	w.Check(err)
	latencies := w.sendBursts(c, to, reviews, rate, d)
	after, err := harness.UsageOf(to.pid)
	w.Check(err)
	return reviewFigures{
		processor: harness.InMilliseconds(after.Processor-before.Processor) / float64(len(latencies)),
		median:    harness.InMilliseconds(harness.Median(latencies)), tail: harness.InMilliseconds(harness.Percentile(latencies, 99)),
	}
}

func (w *webhook) sendBursts(c *http.Client, to target, reviews []review, rate int, d time.Duration) []time.Duration {
	count := max(1, int(d.Seconds()*float64(rate)/reviewBurst))
	latencies := make([]time.Duration, count*reviewBurst)
	every := time.NewTicker(time.Second * reviewBurst / time.Duration(rate))
	defer every.Stop()
	var running sync.WaitGroup
	for i := 0; i < count && w.Ctx.Err() == nil; i++ {
		<-every.C
		for j := range reviewBurst {
			running.Go(func() {
				at := i*reviewBurst + j
				latencies[at] = w.post(c, to, reviews[at%len(reviews)])
			})
		}
	}
	running.Wait()
	w.Check(context.Cause(w.Ctx))
	return latencies
}

// post sends one review, and returns the time until the response.
func (w *webhook) post(c *http.Client, to target, r review) time.Duration {
	begin := time.Now()
	url := "https://" + to.address() + r.path + "?timeout=10s"
	request, err := http.NewRequestWithContext(w.Ctx, http.MethodPost, url, bytes.NewReader(r.body))
	w.Check(err)
	request.Header.Set("Content-Type", "application/json")
	response, err := c.Do(request)
	w.Check(err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	w.Check(err)
	if response.ProtoMajor != 2 || !bytes.Contains(answer, []byte(`"allowed":true`)) {
		w.Check(fmt.Errorf("%s by %s: %s", r.path, response.Proto, answer))
	}
	return time.Since(begin)
}

// record makes the API server send its reviews to a recorder, which keeps the first body for each path and allows everything.
func (w *webhook) record() {
	var mu sync.Mutex
	bodies := map[string][]byte{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	w.Check(err)
	ctx, cancel := context.WithCancel(w.Ctx)
	defer cancel()
	go func() {
		_ = serveFloor(ctx, listener, w.certificates, func(path string, body []byte) {
			mu.Lock()
			defer mu.Unlock()
			if bodies[path] == nil {
				bodies[path] = bytes.Clone(body)
			}
		})
	}()
	w.cluster.Install("test/bench/binaries/webhook_prepared.yaml",
		schema.GroupVersionKind{Group: "extensions.gardener.cloud", Version: "v1alpha1", Kind: "Worker"})
	remove := w.register(listener.Addr().String())
	// All but the deletions and the eleven other extension kinds.
	wanted := len(registrations.Enabled(config.FlavorStandalone, w.cfg.Webhooks, registrations.Own{})) - 13
	attempt := 0
	w.Await(time.Minute, fmt.Sprintf("the API server to call %d webhooks", wanted), func(context.Context) error {
		attempt++
		for _, each := range w.examples(onSpace, fmt.Sprintf("recorded-%d", attempt)) {
			w.cluster.Create(each)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(bodies) < wanted {
			return fmt.Errorf("it called %d", len(bodies))
		}
		return nil
	})
	w.recorded = bodies
	remove()
}

// register makes the API server call an address for all webhooks, and returns a function that removes the registration.
func (w *webhook) register(address string) (remove func()) {
	own := registrations.Own{Name: "bench", Namespace: harness.Namespace, URL: "https://" + address}
	objects := registrations.Configurations(config.FlavorStandalone, w.cfg.Webhooks, own)(w.authority)
	for _, each := range objects {
		w.cluster.Create(each)
	}
	return func() {
		for _, each := range objects {
			w.Check(client.IgnoreNotFound(w.cluster.Client.Delete(w.Ctx, each)))
		}
	}
}

// allowed is the response of the floor to every request.
const allowed = `{"kind":"AdmissionReview","apiVersion":"%s","response":{"uid":"%s","allowed":true,"status":{"metadata":{},"code":200}}}`

// first returns the first string value of a name in a review, in the format of API servers.
func first(body []byte, name string) []byte {
	_, behind, _ := bytes.Cut(body, []byte(`"`+name+`":"`))
	text, _, _ := bytes.Cut(behind, []byte(`"`))
	return text
}

// serveFloor reads every request and allows it, until the context ends. seen, if not nil, gets the path and the body of each request. The
// body is valid only during the call.
func serveFloor(ctx context.Context, listener net.Listener, certificates string, seen func(path string, body []byte)) error {
	bodies := sync.Pool{New: func() any { return &bytes.Buffer{} }}
	handler := func(w http.ResponseWriter, r *http.Request) {
		body := bodies.Get().(*bytes.Buffer) //nolint:errcheck // the pool contains nothing else
		defer bodies.Put(body)
		body.Reset()
		if _, err := body.ReadFrom(r.Body); err == nil && seen != nil {
			seen(r.URL.Path, body.Bytes())
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, allowed, first(body.Bytes(), "apiVersion"), first(body.Bytes(), "uid"))
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(handler)}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.ServeTLS(listener, filepath.Join(certificates, "tls.crt"), filepath.Join(certificates, "tls.key"))
	if ctx.Err() != nil {
		return nil // the server was asked to stop
	}
	return err
}

// startFloor starts this program again, as the process of the floor server.
func (w *webhook) startFloor() target {
	self, err := os.Executable()
	w.Check(err)
	floor := target{port: w.FreePort()}
	process, err := child.Start(child.Spec{
		Name: "floor", Path: self, Args: []string{"webhook", "-floor", floor.address(), "-certificates", w.certificates},
		Dir: w.Dir, LogFile: filepath.Join(w.Dir, "floor.log"), RecordFile: filepath.Join(w.Dir, "floor.json"),
	})
	w.Check(err)
	w.AtEnd(func(err error) error { return errors.Join(err, process.Stop(10*time.Second)) })
	w.Await(time.Minute, "the floor to listen", func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", floor.address())
		if err == nil {
			return connection.Close()
		}
		if failure := process.Failure(); failure != nil {
			return local.GiveUp(failure)
		}
		return err
	})
	floor.pid = process.ID
	return floor
}

// certify creates the serving certificate of all servers, which is valid for loopback, and the CA that signs it.
func (w *webhook) certify() {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	w.authority = certificate
	w.Check(errors.Join(err,
		os.MkdirAll(w.certificates, 0o700),
		os.WriteFile(filepath.Join(w.certificates, "tls.crt"), certificate, 0o600),
		os.WriteFile(filepath.Join(w.certificates, "tls.key"), key, 0o600),
	))
}
