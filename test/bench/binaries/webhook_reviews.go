package binaries

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

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

// review is a recorded body.
type review struct {
	path string
	body []byte
}

// reviewFigures are the results of one load: times per request in ms, and the allocations.
type reviewFigures struct{ processor, objects, bytes, median, tail float64 }

// target is a measured process. Without a program, allocations are not measured.
type target struct {
	pid, port int
	program   *harness.Program
}

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
	c := w.newClient()
	defer c.CloseIdleConnections()
	_, _, err := post(w.Ctx, c, to.port, reviews[0]) // opens the connection
	w.Check(err)
	before := w.used(to)
	latencies, err := sendBursts(w.Ctx, c, to.port, reviews, rate, d)
	w.Check(err)
	after := w.used(to)
	slices.Sort(latencies)
	n := float64(len(latencies))
	return reviewFigures{
		processor: (after.processor - before.processor) / n,
		objects:   (after.objects - before.objects) / n, bytes: (after.bytes - before.bytes) / n,
		median: harness.InMilliseconds(latencies[len(latencies)/2]), tail: harness.InMilliseconds(latencies[len(latencies)*99/100]),
	}
}

// used returns the resource usage of the process since its start.
func (w *webhook) used(to target) reviewFigures {
	processor, err := harness.ProcessorTime(to.pid)
	w.Check(err)
	found := reviewFigures{processor: harness.InMilliseconds(processor)}
	if to.program != nil {
		metrics := to.program.Metrics()
		found.objects, found.bytes = metrics.Sum("go_memstats_mallocs_total"), metrics.Sum("go_memstats_alloc_bytes_total")
	}
	return found
}

// newClient returns a client that uses one connection.
func (w *webhook) newClient() *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.authority)
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}}
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

func sendBursts(ctx context.Context, c *http.Client, port int, reviews []review, rate int, d time.Duration) ([]time.Duration, error) {
	count := max(1, int(d.Seconds()*float64(rate)/reviewBurst))
	latencies := make([]time.Duration, count*reviewBurst)
	errs := make([]error, count*reviewBurst)
	every := time.NewTicker(time.Second * reviewBurst / time.Duration(rate))
	defer every.Stop()
	var running sync.WaitGroup
	for i := range count {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-every.C:
		}
		for j := range reviewBurst {
			running.Go(func() {
				at := i*reviewBurst + j
				latencies[at], _, errs[at] = post(ctx, c, port, reviews[at%len(reviews)])
			})
		}
	}
	running.Wait()
	return latencies, errors.Join(errs...)
}

// post sends one review, and returns the response and the time that it took.
func post(ctx context.Context, c *http.Client, port int, r review) (took time.Duration, answer []byte, err error) {
	begin := time.Now()
	url := fmt.Sprintf("https://127.0.0.1:%d%s?timeout=10s", port, r.path)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(r.body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, err
	}
	if response.ProtoMajor != 2 || !bytes.Contains(answer, []byte(`"allowed":true`)) {
		return 0, nil, fmt.Errorf("%s by %s: %s", r.path, response.Proto, answer)
	}
	return time.Since(begin), answer, nil
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
		_ = serveFloor(ctx, listener, w.certificates, nil, func(path string, body []byte) {
			mu.Lock()
			defer mu.Unlock()
			if bodies[path] == nil {
				bodies[path] = bytes.Clone(body)
			}
		})
	}()
	w.prepareExamples()
	remove := w.register(listener.Addr().String())
	// All but the deletions and the eleven other extension kinds.
	wanted := len(registrations.Enabled(config.FlavorStandalone, w.cfg.Webhooks, registrations.Own{})) - 13
	attempt := 0
	w.Await(time.Minute, fmt.Sprintf("the API server to call %d webhooks", wanted), func(context.Context) error {
		attempt++
		if failure := w.createExamples(fmt.Sprintf("recorded-%d", attempt)); failure != nil {
			return local.GiveUp(failure)
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

// allowed is the response of a floor to every request, with a patch if it has one for the path.
const (
	allowed = `{"kind":"AdmissionReview","apiVersion":"%s","response":{"uid":"%s","allowed":true,"status":{"metadata":{},"code":200}%s}}`
	patched = `,"patchType":"JSONPatch","patch":"%s"`
)

// first returns the first string value of a name in a review, in the format of API servers.
func first(body []byte, name string) []byte {
	_, behind, _ := bytes.Cut(body, []byte(`"`+name+`":"`))
	text, _, _ := bytes.Cut(behind, []byte(`"`))
	return text
}

// serveFloor reads every request and allows it, with the patch for its path if there is one, until the context ends. Seen, if not nil, gets
// path and body, which is overwritten later.
func serveFloor(
	ctx context.Context, listener net.Listener, certificates string, answers map[string]string, seen func(path string, body []byte),
) error {
	bodies := sync.Pool{New: func() any { return &bytes.Buffer{} }}
	handler := func(w http.ResponseWriter, r *http.Request) {
		body := bodies.Get().(*bytes.Buffer) //nolint:errcheck // the pool contains nothing else
		defer bodies.Put(body)
		body.Reset()
		if _, err := body.ReadFrom(r.Body); err == nil && seen != nil {
			seen(r.URL.Path, body.Bytes())
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, allowed, first(body.Bytes(), "apiVersion"), first(body.Bytes(), "uid"), answers[r.URL.Path])
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

// runFloor makes this process a floor.
func (w *webhook) runFloor() {
	answers := map[string]string{}
	if w.answers != "" {
		content, err := os.ReadFile(w.answers)
		w.Check(err)
		w.Check(json.Unmarshal(content, &answers))
	}
	listener, err := net.Listen("tcp", w.floor)
	w.Check(err)
	w.Check(serveFloor(w.Ctx, listener, w.certificates, answers, nil))
}

// startFloor starts this program as a floor, optionally with a file of patches.
func (w *webhook) startFloor(answers string) target {
	self, err := os.Executable()
	w.Check(err)
	port := w.FreePort()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	name := fmt.Sprintf("floor-%d", port)
	process, err := child.Start(child.Spec{
		Name: name, Path: self,
		Args: []string{"webhook", "-floor", address, "-certificates", w.certificates, "-answers", answers},
		Dir:  w.Dir, LogFile: filepath.Join(w.Dir, name+".log"), RecordFile: filepath.Join(w.Dir, name+".json"),
	})
	w.Check(err)
	w.AtEnd(func() error { return process.Stop(10 * time.Second) })
	w.Await(time.Minute, "the floor to listen", func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return connection.Close()
		}
		if failure := process.Failure(); failure != nil {
			return local.GiveUp(failure)
		}
		return err
	})
	return target{process.ID, port, nil}
}

// keepAnswers sends the recorded reviews to the server, and writes its patches into a file for a floor.
func (w *webhook) keepAnswers(reviews []review) (file string) {
	c := w.newClient()
	defer c.CloseIdleConnections()
	answers := map[string]string{}
	for _, each := range reviews {
		_, answer, err := post(w.Ctx, c, w.program.WebhookPort, each)
		w.Check(err)
		if patch := first(answer, "patch"); len(patch) > 0 {
			answers[each.path] = fmt.Sprintf(patched, patch)
		}
	}
	content, err := json.Marshal(answers)
	w.Check(err)
	file = filepath.Join(w.Dir, "answers.json")
	w.Check(os.WriteFile(file, content, 0o600))
	return file
}

// certify creates the certificate, for loopback, and its authority.
func (w *webhook) certify() {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	w.authority = certificate
	w.Check(errors.Join(err,
		os.MkdirAll(w.certificates, 0o700),
		os.WriteFile(filepath.Join(w.certificates, "tls.crt"), certificate, 0o600),
		os.WriteFile(filepath.Join(w.certificates, "tls.key"), key, 0o600),
	))
}
