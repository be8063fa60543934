//go:build e2e

package gardenoperator_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/local/node"
)

const (
	// pauseOfProber is the time between two requests of a probe, and shortPause this time during the rotation of a key that API servers
	// read. answerTimeout is how long a probe waits for an answer.
	pauseOfProber = time.Second
	shortPause    = 200 * time.Millisecond
	answerTimeout = 5 * time.Second
	// calledNamespace is a namespace of the virtual cluster. kube-apiserver calls a webhook of Gardener's admission controller for Secrets in
	// it, because it has the label of namespaces of projects.
	calledNamespace = "e2e-called"
)

// prober sends requests to the virtual cluster through the gateway, as users do, and through the Service, as programs in the runtime
// cluster do: with each credential, over new and kept connections. Read its results only after end.
type prober struct {
	// pause is the time between two requests of a probe.
	pause   time.Duration
	stop    context.CancelFunc
	running sync.WaitGroup
	probes  []*probe
	watched *watched
	// windows are the restarts of an etcd with one member. They stay empty if etcds have more members.
	windows *windows
}

// access returns how a client connects to the virtual cluster now. Clients call it for each request, because files and Secrets with
// credentials change.
type access func(context.Context) (*rest.Config, error)

// probe is one kind of request, with its results.
type probe struct {
	// name describes the request, the connection and the way; path is the path of the request.
	name, path string
	// body is the content of a request that creates an object, empty for a request that reads.
	body string
	// access are the address and the credentials.
	access access
	// certificate is the certificate of the client; nil: the client has the credentials of access.
	certificate *tls.Certificate
	// dial connects to the address; nil: like net.Dialer.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	// kept is true if the client keeps its connection, and watches is true if only the first event of the answer counts.
	kept, watches bool

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

// way is a way to the API servers of the virtual cluster.
type way struct {
	name string
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// newProbes returns the probes of users with a token and with a certificate, for each way.
func newProbes(user access, certificate *tls.Certificate, ways ...way) []*probe {
	const namespacePath = "/api/v1/namespaces/default"
	const watch = "/api/v1/namespaces?watch=true&resourceVersion=0&timeoutSeconds=5&fieldSelector=metadata.name%3Ddefault"
	var all []*probe
	for _, way := range ways {
		all = append(all, way.probes(probe{name: "client certificate", path: namespacePath, access: user, certificate: certificate})...)
		all = append(all, way.probes(probe{name: "token", path: namespacePath, access: user})...)
		all = append(all, way.probes(probe{
			name: "aggregated request", path: "/apis/core.gardener.cloud/v1beta1/projects?limit=1", access: user,
		})...)
		all = append(all, way.probes(probe{
			name: "webhook call", path: "/api/v1/namespaces/" + calledNamespace + "/secrets?dryRun=All", access: user,
			body: `{"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "e2e-"}}`,
		})...)
		all = append(all, way.probes(probe{name: "watch", path: watch, access: user, watches: true})[0])
	}
	return all
}

// probes returns the probes of a request over new connections and over a kept connection.
func (w way) probes(request probe) []*probe {
	fresh, kept := request, request
	kept.kept = true
	fresh.dial, kept.dial = w.dial, w.dial
	fresh.name, kept.name = request.name+" | new | "+w.name, request.name+" | kept | "+w.name
	return []*probe{&fresh, &kept}
}

// startProber starts all probes, with a client certificate of a user.
func (l localGarden) startProber(ctx context.Context, certificate *tls.Certificate, pause time.Duration) *prober {
	GinkgoHelper()
	service := way{"Service", l.dialService(ctx)}
	user := func(context.Context) (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", l.kubeconfig) }
	p := &prober{
		pause: pause, probes: newProbes(user, certificate, way{name: "gateway"}, service), windows: &windows{},
		watched: &watched{garden: l, confirmed: map[string]time.Time{}, seen: map[string]time.Time{}},
	}
	if l.hasSeed(ctx) {
		for name, access := range map[string]access{"gardenlet": gardenletAccess, "extension": l.extensionAccess(ctx)} {
			p.probes = append(p.probes, service.probes(probe{name: "kubeconfig of " + name, path: "/apis", access: access})...)
		}
	}
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	for _, each := range p.probes {
		p.running.Go(func() { p.run(ctx, each) })
	}
	p.running.Go(func() { p.watched.write(ctx) })
	p.running.Go(func() { p.watched.watch(ctx) })
	if !l.isHighlyAvailable(ctx) {
		p.running.Go(func() { p.windows.observe(ctx) })
	}
	return p
}

// dialService returns a function that connects to the Service of the virtual cluster's kube-apiserver, at whatever address.
func (l localGarden) dialService(ctx context.Context) func(ctx context.Context, network, address string) (net.Conn, error) {
	GinkgoHelper()
	service := &corev1.Service{}
	Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "virtual-garden-kube-apiserver"}, service)).To(Succeed())
	address := net.JoinHostPort(service.Spec.ClusterIP, "443")
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return node.Dial(ctx, network, address)
	}
}

// gardenletAccess is the kubeconfig of gardenlet.
func gardenletAccess(ctx context.Context) (*rest.Config, error) {
	secret := &corev1.Secret{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "gardenlet-kubeconfig"}, secret); err != nil {
		return nil, err
	}
	return clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig"])
}

var errNoKubeconfig = errors.New("gardenlet has injected no kubeconfig")

// extensionAccess returns the access of an extension: the kubeconfig that gardenlet injects into its Pods names a file with a token.
func (l localGarden) extensionAccess(ctx context.Context) access {
	GinkgoHelper()
	const tokenSecret = "garden-access-extension"
	all := &corev1.SecretList{}
	Expect(c.Client.List(ctx, all)).To(Succeed())
	index := slices.IndexFunc(all.Items, func(each corev1.Secret) bool { return each.Name == tokenSecret })
	Expect(index).To(BeNumerically(">=", 0), "the Secret with the token of an extension")
	in := all.Items[index].Namespace
	return func(ctx context.Context) (*rest.Config, error) {
		secrets := &corev1.SecretList{}
		if err := c.Client.List(ctx, secrets, client.InNamespace(in)); err != nil {
			return nil, err
		}
		var newest *corev1.Secret
		token := ""
		for i := range secrets.Items {
			each := &secrets.Items[i]
			switch {
			case each.Name == tokenSecret:
				token = string(each.Data["token"])
			case !strings.HasPrefix(each.Name, "generic-garden-kubeconfig-"):
			case newest == nil || newest.CreationTimestamp.Before(&each.CreationTimestamp):
				newest = each
			}
		}
		if newest == nil || token == "" {
			return nil, errNoKubeconfig
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(newest.Data["kubeconfig"])
		if err != nil {
			return nil, err
		}
		config.BearerToken, config.BearerTokenFile = token, ""
		return config, nil
	}
}

// end stops all probes. It may be called again.
func (p *prober) end() {
	p.stop()
	p.running.Wait()
}

// run sends a request after each pause. A request on a kept connection is repeated once, because servers may end connections at any time.
func (p *prober) run(ctx context.Context, each *probe) {
	var kept *http.Transport
	var begin time.Time
	for ; ctx.Err() == nil; pause(ctx, time.Until(begin.Add(p.pause))) {
		begin = time.Now()
		each.requests++
		var err error
		if kept != nil {
			if err = each.request(ctx, kept); err == nil {
				continue
			}
			kept.CloseIdleConnections()
			kept = nil
		}
		repeats := err != nil
		fresh, err := each.connect(ctx)
		if err == nil {
			err = each.request(ctx, fresh)
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
func (p *probe) connect(ctx context.Context) (*http.Transport, error) {
	config, err := p.access(ctx)
	if err != nil {
		return nil, err
	}
	settings, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	if p.certificate != nil {
		settings.Certificates = []tls.Certificate{*p.certificate}
	}
	return &http.Transport{
		TLSClientConfig: settings, DialContext: p.dial, ForceAttemptHTTP2: true, TLSHandshakeTimeout: answerTimeout,
	}, nil
}

// request sends a request, and returns an error unless a server answers with success.
func (p *probe) request(ctx context.Context, transport *http.Transport) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	config, err := p.access(ctx)
	if err != nil {
		return err
	}
	method := http.MethodGet
	if p.body != "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, config.Host+p.path, strings.NewReader(p.body))
	if err != nil {
		return err
	}
	if p.body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if p.certificate == nil && config.BearerToken != "" {
		request.Header.Set("Authorization", "Bearer "+config.BearerToken)
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusCreated {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 200))
		return fmt.Errorf("status %d: %s", answer.StatusCode, strings.TrimSpace(string(text)))
	}
	if p.watches {
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
	text.WriteString("| step | took, s | request | connection | way | requests | repeated | failed | of these while no etcd restarted | " +
		"longest gap, s |\n|---|---|---|---|---|---|---|---|---|---|\n")
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
		fmt.Fprintf(&text, "| %s | %.0f | watch | kept | gateway | %d | %d | %d lost | | %.1f |\n", p.step, p.took.Seconds(), p.watches,
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
		probes: newProbes(nil, nil, way{name: "gateway"})[2:4],
	}
	fresh, kept := result.probes[0], result.probes[1]
	fresh.requests, fresh.failures, kept.requests, kept.repeated = 60, failed, 60, 2
	g.Expect(result.outside()).To(ConsistOf(HavePrefix("start: token | new | gateway at ")))
	g.Expect("\n" + probedTable([]probed{result})).To(Equal(`
| step | took, s | request | connection | way | requests | repeated | failed | of these while no etcd restarted | longest gap, s |
|---|---|---|---|---|---|---|---|---|---|
| start | 60 | token | new | gateway | 60 | 0 | 3 | 1 | 5.0 |
| start | 60 | token | kept | gateway | 60 | 2 | 0 | 0 | 0.0 |
| start | 60 | watch | kept | gateway | 3 | 0 | 0 lost | | 1.5 |

| step | Pod | not ready, s |
|---|---|---|
| start | etcd-0 | 10.0 |
`))
}
