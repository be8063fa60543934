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
	"regexp"
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

func (w *webhook) server() target { return target{w.program.PID(), w.program.WebhookPort, w.program} }

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
func (w *webhook) send(ctx context.Context, to target, reviews []review, rate int, d time.Duration) (reviewFigures, error) {
	c := w.newClient()
	defer c.CloseIdleConnections()
	if _, _, err := post(ctx, c, to.port, reviews[0]); err != nil { // opens the connection
		return reviewFigures{}, err
	}
	before, err := to.used(ctx)
	if err != nil {
		return reviewFigures{}, err
	}
	latencies, err := sendBursts(ctx, c, to.port, reviews, rate, d)
	if err != nil {
		return reviewFigures{}, err
	}
	after, err := to.used(ctx)
	if err != nil {
		return reviewFigures{}, err
	}
	slices.Sort(latencies)
	n := float64(len(latencies))
	return reviewFigures{
		processor: (after.processor - before.processor) / n,
		objects:   (after.objects - before.objects) / n, bytes: (after.bytes - before.bytes) / n,
		median: harness.InMilliseconds(latencies[len(latencies)/2]), tail: harness.InMilliseconds(latencies[len(latencies)*99/100]),
	}, nil
}

// used returns the resource usage of the process since its start.
func (to target) used(ctx context.Context) (reviewFigures, error) {
	processor, err := harness.ProcessorTime(to.pid)
	found := reviewFigures{processor: harness.InMilliseconds(processor)}
	if err != nil || to.program == nil {
		return found, err
	}
	metrics, err := to.program.Metrics(ctx)
	found.objects, found.bytes = metrics.Sum("go_memstats_mallocs_total"), metrics.Sum("go_memstats_alloc_bytes_total")
	return found, err
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

// uid matches the UID of a review.
var uid = regexp.MustCompile(`"request":\{"uid":"([^"]*)"`)

// record makes the API server send its reviews to a recorder, which keeps the first body for each path and allows everything.
func (w *webhook) record(ctx context.Context) error {
	var mu sync.Mutex
	bodies := map[string][]byte{}
	handler := func(response http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		found := uid.FindSubmatch(body)
		if err != nil || found == nil {
			response.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		if bodies[request.URL.Path] == nil {
			bodies[request.URL.Path] = body
		}
		mu.Unlock()
		response.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(response, allowed, "admission.k8s.io/v1beta1", found[1], "")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(handler), ReadHeaderTimeout: time.Minute}
	certificates := w.program.File("certificates")
	go func() {
		_ = server.ServeTLS(listener, filepath.Join(certificates, "tls.crt"), filepath.Join(certificates, "tls.key"))
	}()
	defer func() { _ = server.Close() }()
	err = w.prepareExamples(ctx)
	if err != nil {
		return err
	}
	remove, err := w.register(ctx, listener.Addr().String())
	if err != nil {
		return err
	}
	// All but the deletions and the eleven other extension kinds.
	wanted := len(registrations.Enabled(config.FlavorStandalone, w.cfg.Webhooks, registrations.Own{})) - 13
	attempt := 0
	err = local.Await(ctx, time.Minute, fmt.Sprintf("the API server to call %d webhooks", wanted), func(ctx context.Context) error {
		attempt++
		if failure := w.createExamples(ctx, fmt.Sprintf("recorded-%d", attempt)); failure != nil {
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
	return errors.Join(err, remove(ctx))
}

// register makes the API server call an address for all webhooks, and returns a function that removes the registration.
func (w *webhook) register(ctx context.Context, address string) (func(context.Context) error, error) {
	own := registrations.Own{Name: "bench", Namespace: harness.Namespace, URL: "https://" + address}
	objects := registrations.Configurations(config.FlavorStandalone, w.cfg.Webhooks, own)(w.authority)
	for _, each := range objects {
		if err := w.cluster.Client.Create(ctx, each); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) error {
		var err error
		for _, each := range objects {
			err = errors.Join(err, client.IgnoreNotFound(w.cluster.Client.Delete(ctx, each)))
		}
		return err
	}, nil
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

// serveFloor reads every request and allows it, until the context ends. The file, if there is one, contains the patches for the responses,
// by path.
func serveFloor(ctx context.Context, address, certificates, file string) error {
	answers := map[string]string{}
	if file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(content, &answers); err != nil {
			return err
		}
	}
	bodies := sync.Pool{New: func() any { return &bytes.Buffer{} }}
	handler := func(w http.ResponseWriter, r *http.Request) {
		body := bodies.Get().(*bytes.Buffer) //nolint:errcheck // the pool contains nothing else
		defer bodies.Put(body)
		body.Reset()
		_, _ = body.ReadFrom(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, allowed, first(body.Bytes(), "apiVersion"), first(body.Bytes(), "uid"), answers[r.URL.Path])
	}
	server := &http.Server{Addr: address, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(handler)}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	err := server.ListenAndServeTLS(filepath.Join(certificates, "tls.crt"), filepath.Join(certificates, "tls.key"))
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was asked to stop
	}
	return err
}

// floorProcess is this program as a floor.
type floorProcess struct {
	*child.Process
	port int
}

// startFloor starts this program as a floor, optionally with a file of patches.
func (w *webhook) startFloor(ctx context.Context, answers string) (*floorProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	port, err := w.FreePort()
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	name := fmt.Sprintf("floor-%d", port)
	process, err := child.Start(child.Spec{
		Name: name, Path: self,
		Args: []string{"webhook", "-floor", address, "-certificates", w.program.File("certificates"), "-answers", answers},
		Dir:  w.Dir, LogFile: filepath.Join(w.Dir, name+".log"), RecordFile: filepath.Join(w.Dir, name+".json"),
	})
	if err != nil {
		return nil, err
	}
	floor := &floorProcess{process, port}
	w.floors = append(w.floors, floor)
	return floor, local.Await(ctx, time.Minute, "the floor to listen", func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return connection.Close()
		}
		if failure := process.Failure(); failure != nil {
			return local.GiveUp(failure)
		}
		return err
	})
}

// keepAnswers sends the recorded reviews to the server, and writes its patches into a file for a floor.
func (w *webhook) keepAnswers(ctx context.Context, reviews []review) (file string, err error) {
	c := w.newClient()
	defer c.CloseIdleConnections()
	answers := map[string]string{}
	for _, each := range reviews {
		_, answer, failure := post(ctx, c, w.program.WebhookPort, each)
		if failure != nil {
			return "", failure
		}
		if patch := first(answer, "patch"); len(patch) > 0 {
			answers[each.path] = fmt.Sprintf(patched, patch)
		}
	}
	content, err := json.Marshal(answers)
	if err != nil {
		return "", err
	}
	file = filepath.Join(w.Dir, "answers.json")
	return file, os.WriteFile(file, content, 0o600)
}

// certify writes a certificate for loopback into a folder, and returns it with its authority.
func certify(dir string) ([]byte, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	return certificate, errors.Join(err,
		os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600),
	)
}
