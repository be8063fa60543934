//go:build e2e

package gardenoperator_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// pauseOfProber is the time between two requests of a probe. answerTimeout is how long a probe waits for an answer.
	pauseOfProber = time.Second
	answerTimeout = 5 * time.Second
)

// prober sends requests to the virtual cluster through the gateway, as users do: with each credential, over new and kept connections.
// Read its results only after end.
type prober struct {
	// kubeconfig is the kubeconfig file of users. Clients read it for each request, as kubectl does.
	kubeconfig string
	stop       context.CancelFunc
	running    sync.WaitGroup
	probes     []*probe
	watched    *watched
	windows    *windows
	// certificate is the client certificate.
	certificate *tls.Certificate
}

// probe is one kind of request, with its results.
type probe struct {
	// name describes the request; path is its path.
	name, path string
	// certified is true if the client has a certificate instead of a token. kept is true if the client keeps its connection, and watches is
	// true if only the first event of the answer counts.
	certified, kept, watches bool

	requests int
	// repeated is the number of requests that failed on a kept connection, and succeeded on a new one.
	repeated int
	failures []failure
}

// failure is a request that failed.
type failure struct {
	begin, end time.Time
	err        error
}

// newProbes returns all probes.
func newProbes() []*probe {
	var all []*probe
	for _, kept := range []bool{false, true} {
		connection := "new"
		if kept {
			connection = "kept"
		}
		all = append(all,
			&probe{name: "client certificate | " + connection, path: "/api/v1/namespaces/default", certified: true, kept: kept},
			&probe{name: "token | " + connection, path: "/api/v1/namespaces/default", kept: kept},
			&probe{name: "aggregated request | " + connection, path: "/apis/core.gardener.cloud/v1beta1/projects?limit=1", kept: kept},
		)
	}
	const watch = "/api/v1/namespaces?watch=true&resourceVersion=0&timeoutSeconds=5&fieldSelector=metadata.name%3Ddefault"
	return append(all, &probe{name: "watch | new", path: watch, watches: true})
}

// startProber starts all probes, with a client certificate.
func (l localGarden) startProber(certificate *tls.Certificate) *prober {
	ctx, stop := context.WithCancel(context.Background())
	p := &prober{
		kubeconfig: l.kubeconfig, stop: stop, probes: newProbes(), windows: &windows{}, certificate: certificate,
		watched: &watched{garden: l, confirmed: map[string]time.Time{}, seen: map[string]time.Time{}},
	}
	for _, each := range p.probes {
		p.running.Go(func() { p.run(ctx, each) })
	}
	p.running.Go(func() { p.watched.write(ctx) })
	p.running.Go(func() { p.watched.watch(ctx) })
	p.running.Go(func() { p.windows.observe(ctx) })
	return p
}

// end stops all probes. It may be called again.
func (p *prober) end() {
	p.stop()
	p.running.Wait()
}

// run sends a request each second. A request on a kept connection is repeated once, because servers may end connections at any time.
func (p *prober) run(ctx context.Context, each *probe) {
	var kept *http.Transport
	var begin time.Time
	for ; ctx.Err() == nil; pause(ctx, time.Until(begin.Add(pauseOfProber))) {
		begin = time.Now()
		each.requests++
		var err error
		if kept != nil {
			if err = p.request(ctx, each, kept); err == nil {
				continue
			}
			kept.CloseIdleConnections()
			kept = nil
		}
		repeats := err != nil
		fresh, err := p.connect(each)
		if err == nil {
			err = p.request(ctx, each, fresh)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			each.failures = append(each.failures, failure{begin, time.Now(), err})
		case repeats:
			each.repeated++
		}
		if err == nil && each.kept {
			kept = fresh
		} else if fresh != nil {
			fresh.CloseIdleConnections()
		}
	}
}

// connect returns a transport without connections, with the current credentials.
func (p *prober) connect(each *probe) (*http.Transport, error) {
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		return nil, err
	}
	settings, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	if each.certified {
		settings.Certificates = []tls.Certificate{*p.certificate}
	}
	return &http.Transport{TLSClientConfig: settings, ForceAttemptHTTP2: true, TLSHandshakeTimeout: answerTimeout}, nil
}

// request sends a request, and returns an error unless a server answers with status 200.
func (p *prober) request(ctx context.Context, each *probe, transport *http.Transport) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+each.path, http.NoBody)
	if err != nil {
		return err
	}
	if !each.certified {
		request.Header.Set("Authorization", "Bearer "+config.BearerToken)
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 200))
		return fmt.Errorf("status %d: %s", answer.StatusCode, strings.TrimSpace(string(text)))
	}
	if each.watches {
		_, err = answer.Body.Read(make([]byte, 1))
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// watched is a ConfigMap of the virtual cluster that a client changes each second, while another one watches it over kept connections.
type watched struct {
	garden localGarden

	lock sync.Mutex
	// confirmed has the times at which changes were confirmed, and seen has the times of their events, by the number of the change.
	confirmed, seen map[string]time.Time
	// connections is the number of watches, and problems has the errors that lost the place of a watch.
	connections int
	problems    []error
}

const (
	watchedName = "e2e-watched"
	changeKey   = "change"
)

// write changes the ConfigMap each second. A change that is not confirmed is left out.
func (w *watched) write(ctx context.Context) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: watchedName}}
	for i := 0; ctx.Err() == nil; i++ {
		number := strconv.Itoa(i)
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
		virtual, err := w.garden.virtual()
		if err == nil {
			patch := client.RawPatch("application/apply-patch+yaml", fmt.Appendf(nil,
				`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": %q}, "data": {%q: %q}}`,
				watchedName, changeKey, number))
			err = virtual.Patch(limited, object.DeepCopy(), patch, client.FieldOwner("e2e"), client.ForceOwnership)
		}
		cancel()
		if err == nil {
			w.note(w.confirmed, number)
		}
		pause(ctx, pauseOfProber)
	}
}

func (w *watched) note(in map[string]time.Time, number string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if _, exists := in[number]; !exists {
		in[number] = time.Now()
	}
}

// watch watches the ConfigMap. When a watch ends, the next one begins at the last event, like the watch of an informer.
func (w *watched) watch(ctx context.Context) {
	version := ""
	for ; ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
		last, err := w.watchFrom(ctx, version)
		version = last
		if err != nil && ctx.Err() == nil {
			w.lock.Lock()
			w.problems = append(w.problems, err)
			w.lock.Unlock()
			version = ""
		}
	}
}

var errPlaceLost = errors.New("the watch cannot go on at the last event")

// watchFrom watches from a version, empty: from now on, until the watch ends. It returns the version of the last event.
func (w *watched) watchFrom(ctx context.Context, version string) (string, error) {
	config, err := clientcmd.BuildConfigFromFlags("", w.garden.kubeconfig)
	if err != nil {
		return version, nil // the next attempt reads the file again
	}
	virtual, err := client.NewWithWatch(config, client.Options{Scheme: c.Client.Scheme()})
	if err != nil {
		return version, nil // the virtual cluster does not answer
	}
	list := &corev1.ConfigMapList{}
	events, err := virtual.Watch(ctx, list, client.InNamespace("default"), client.MatchingFields{"metadata.name": watchedName},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true}})
	if err != nil {
		return version, nil // refused connections are counted by the probes
	}
	defer events.Stop()
	w.lock.Lock()
	w.connections++
	w.lock.Unlock()
	for event := range events.ResultChan() {
		if object, isObject := event.Object.(*corev1.ConfigMap); isObject {
			version = object.ResourceVersion
			if number, isChange := object.Data[changeKey]; isChange {
				w.note(w.seen, number)
			}
			continue
		}
		if status, isStatus := event.Object.(*metav1.Status); isStatus && status.Code == http.StatusGone {
			return "", fmt.Errorf("%w: %s", errPlaceLost, status.Message)
		}
		return version, nil // the server ends the watch
	}
	return version, nil
}

// lost returns the number of confirmed changes without an event, and the longest time from a confirmation until the event. The last
// changes do not count, because the watch may have ended before their events.
func (w *watched) lost(until time.Time) (number int, longest time.Duration) {
	for change, confirmed := range w.confirmed {
		if confirmed.After(until) {
			continue
		}
		if seen, found := w.seen[change]; found {
			longest = max(longest, seen.Sub(confirmed))
		} else {
			number++
		}
	}
	return number, longest
}

// windows are the times in which a Pod of an etcd is not ready.
type windows struct {
	closed []window
	open   map[string]time.Time
}

// window is a time in which a Pod of an etcd was not ready.
type window struct {
	pod        string
	begin, end time.Time
}

// observe checks the Pods of both etcds each 500 ms.
func (w *windows) observe(ctx context.Context) {
	w.open = map[string]time.Time{}
	for ; ctx.Err() == nil; pause(ctx, pauseOfProber/2) {
		now := time.Now()
		for _, name := range []string{etcdMain + "-0", "virtual-garden-etcd-events-0"} {
			pod := &corev1.Pod{}
			err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod)
			if ctx.Err() != nil {
				return
			}
			w.record(name, client.IgnoreNotFound(err) != nil || err == nil && isServing(pod), now)
		}
	}
}

// record opens or closes a window.
func (w *windows) record(pod string, serves bool, now time.Time) {
	begin, isOpen := w.open[pod]
	switch {
	case !serves && !isOpen:
		w.open[pod] = now
	case serves && isOpen:
		w.closed = append(w.closed, window{pod, begin, now})
		delete(w.open, pod)
	}
}

func isServing(pod *corev1.Pod) bool {
	for _, each := range pod.Status.Conditions {
		if each.Type == corev1.PodReady {
			return each.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}

// contain reports whether a request that failed was sent or waited while an etcd restarted. A Pod that ends stops to serve a moment before
// that is observed.
func (w *windows) contain(f failure) bool {
	for _, each := range w.closed {
		if f.end.After(each.begin.Add(-2*time.Second)) && f.begin.Before(each.end.Add(2*time.Second)) {
			return true
		}
	}
	return false
}

// probed is the result of all probes during a step of a rotation.
type probed struct {
	step     string
	took     time.Duration
	probes   []*probe
	windows  windows
	lost     int
	longest  time.Duration
	watches  int
	problems []error
}

// outside returns the failures that no restart of an etcd explains.
func (p *probed) outside() []string {
	var found []string
	for _, each := range p.probes {
		for _, f := range each.failures {
			if !p.windows.contain(f) {
				found = append(found, fmt.Sprintf("%s: %s at %s: %v", p.step, each.name, f.begin.Format(time.TimeOnly), f.err))
			}
		}
	}
	return found
}

// probedTable returns results as a table in Markdown.
func probedTable(all []probed) string {
	var text strings.Builder
	text.WriteString("| step | took, s | request | connection | requests | repeated | failed | of these while no etcd restarted | " +
		"longest gap, s |\n|---|---|---|---|---|---|---|---|---|\n")
	for i := range all {
		p := &all[i]
		for _, each := range p.probes {
			outside := 0
			for _, f := range each.failures {
				if !p.windows.contain(f) {
					outside++
				}
			}
			fmt.Fprintf(&text, "| %s | %.0f | %s | %d | %d | %d | %d | %.1f |\n", p.step, p.took.Seconds(), each.name, each.requests,
				each.repeated, len(each.failures), outside, each.gap().Seconds())
		}
		fmt.Fprintf(&text, "| %s | %.0f | watch | kept | %d | %d | %d lost | | %.1f |\n", p.step, p.took.Seconds(), p.watches,
			len(p.problems), p.lost, p.longest.Seconds())
	}
	text.WriteString("\n| step | Pod | not ready, s |\n|---|---|---|\n")
	for i := range all {
		for _, each := range all[i].windows.closed {
			fmt.Fprintf(&text, "| %s | %s | %.1f |\n", all[i].step, each.pod, each.end.Sub(each.begin).Seconds())
		}
	}
	return text.String()
}

// gap returns the longest time in which all requests failed.
func (p *probe) gap() time.Duration {
	var longest time.Duration
	for i := range p.failures {
		begin := i
		for begin > 0 && p.failures[begin].begin.Sub(p.failures[begin-1].end) < 2*pauseOfProber {
			begin--
		}
		longest = max(longest, p.failures[i].end.Sub(p.failures[begin].begin))
	}
	return longest
}

func TestProbedTable(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	g := NewWithT(t)
	w := windows{open: map[string]time.Time{}}
	w.record("etcd-0", true, at(90))
	w.record("etcd-0", false, at(100))
	w.record("etcd-0", false, at(105))
	w.record("etcd-0", true, at(110))
	failed := []failure{{at(99), at(101), io.EOF}, {at(102), at(104), io.EOF}, {at(200), at(201), io.EOF}}
	result := probed{
		step: "start", took: time.Minute, windows: w, lost: 0, longest: 1500 * time.Millisecond, watches: 3,
		probes: []*probe{{name: "token | new", requests: 60, failures: failed}, {name: "token | kept", kept: true, requests: 60, repeated: 2}},
	}
	g.Expect(result.outside()).To(ConsistOf(HavePrefix("start: token | new at ")))
	g.Expect("\n" + probedTable([]probed{result})).To(Equal(`
| step | took, s | request | connection | requests | repeated | failed | of these while no etcd restarted | longest gap, s |
|---|---|---|---|---|---|---|---|---|
| start | 60 | token | new | 60 | 0 | 3 | 1 | 5.0 |
| start | 60 | token | kept | 60 | 2 | 0 | 0 | 0.0 |
| start | 60 | watch | kept | 3 | 0 | 0 lost | | 1.5 |

| step | Pod | not ready, s |
|---|---|---|
| start | etcd-0 | 10.0 |
`))
}
