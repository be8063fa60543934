package binaries

import (
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
)

// webhook measures webhook-server.
//
// The API server itself makes the reviews: it first calls a recorder, about a Pod of 5 containers with 10 variables each, a Deployment, a
// HorizontalPodAutoscaler, an EndpointSlice, a Secret and a Worker. The recorded reviews are then sent to webhook-server, a separate
// process with all handlers enabled, by one HTTP/2 client over TLS on loopback, in bursts of ten that share one connection. Processor time
// is the server's, from the kernel. In the same run, a floor is measured: a server of the same library that reads the same bodies and
// allows everything.
//
// The last part creates Pods through the API server, alternately with and without webhooks; then again with the floor instead of the
// server.
type webhook struct {
	bench
	autoscalers, namespaces, nodes, pods int
	// load is how long each rate is measured. single is how long each handler is measured.
	load, single time.Duration
	// floor is true if this process must run as the floor server. certificates is the folder of the serving certificate of all servers.
	floor, certificates string

	cfg *config.ResourceManagerConfiguration
	// authority is the certificate of the CA that has signed the serving certificate, in PEM.
	authority []byte
	// recorded are the reviews of the API server by path.
	recorded map[string][]byte
}

const webhookBinary = "webhook-server"

// webhookSections enable all webhooks.
const webhookSections = `controllers: {tokenInvalidator: {enabled: true}}
webhooks:
  crdDeletionProtection: {enabled: true}
  endpointSliceHints: {enabled: true}
  extensionValidation: {enabled: true}
  highAvailabilityConfig: {enabled: true, defaultNotReadyTolerationSeconds: 60, defaultUnreachableTolerationSeconds: 60}
  kubernetesServiceHost: {enabled: true, host: api.example.com}
  podSchedulerName: {enabled: true, schedulerName: bin-packing-scheduler}
  podTopologySpreadConstraints: {enabled: true}
  projectedTokenMount: {enabled: true}
  seccompProfile: {enabled: true}
  systemComponentsConfig:
    enabled: true
    nodeSelector: {worker.gardener.cloud/system-components: "true"}
    podNodeSelector: {worker.gardener.cloud/system-components: "true"}
  tokenInvalidator: {enabled: true}
`

func webhookBenchmark() harness.Benchmark {
	w := &webhook{}
	return harness.Benchmark{
		Name: "webhook", Summary: "admission reviews, and creations of Pods, with webhook-server",
		Sizes: []harness.Size{
			harness.Sized(&w.autoscalers, "autoscalers", 5000, 50, "`number` of HorizontalPodAutoscalers in the caches"),
			harness.Sized(&w.namespaces, "namespaces", 1000, 10, "`number` of namespaces"),
			harness.Sized(&w.nodes, "nodes", 1000, 10, "`number` of Nodes"),
			harness.Sized(&w.pods, "pods", 400, 20, "`number` of Pods that are created with webhooks, and of those without"),
			harness.Sized(&w.load, "", 20*time.Second, time.Second, ""),
			harness.Sized(&w.single, "", 5*time.Second, 300*time.Millisecond, ""),
		},
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&w.floor, "floor", "", "serve as floor at this address (used by the benchmark itself)")
			flags.StringVar(&w.certificates, "certificates", "", "folder of the floor's certificate")
		},
		Jobs: harness.One(w.measure),
	}
}

func (w *webhook) measure(r *harness.Run) {
	if w.floor != "" {
		listener, err := net.Listen("tcp", w.floor)
		r.Check(err)
		r.Check(serveFloor(r.Ctx, listener, w.certificates, nil))
		return
	}
	w.bench = open(r, webhookBinary, local.Options{})
	w.prepare()
	w.fill()
	w.record()
	w.start()
	floor, server := w.startFloor(), target{w.program.PID(), w.program.WebhookPort}
	w.loads(floor, server)
	w.handlers(server)
	w.podCreation(floor, server)
}

// prepare writes the certificate and the configuration of the webhook server.
func (w *webhook) prepare() {
	w.certificates = w.program.File("certificates")
	w.certify()
	tls := fmt.Sprintf("  webhooks: {bindAddress: 127.0.0.1, port: $WEBHOOKS, tls: {serverCertDir: %q}}\n", w.certificates)
	w.program.Configure(harness.Config + tls + webhookSections)
	text, err := os.ReadFile(w.program.File("config.yaml"))
	w.Check(err)
	w.cfg, _, err = config.ResourceManager(text)
	w.Check(err)
}

// fill creates the objects for the caches of the server.
func (w *webhook) fill() {
	w.Parallel(w.nodes, 32, func(i int) {
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i), Labels: map[string]string{
			"worker.gardener.cloud/system-components": "true", "worker.gardener.cloud/pool": "one",
			corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%3),
		}}}
		object.Spec.Taints = []corev1.Taint{{Key: "pool", Value: strconv.Itoa(i % 5), Effect: corev1.TaintEffectNoSchedule}}
		w.cluster.Create(object)
	})
	w.Parallel(w.namespaces, 32, func(i int) {
		namespace := fmt.Sprintf("space-%d", i)
		w.cluster.CreateNamespace(namespace)
		for j := range w.autoscalers / w.namespaces {
			name := fmt.Sprintf("hpa-%d", j)
			autoscaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			autoscaler.Spec.MaxReplicas = 4
			autoscaler.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
			w.cluster.Create(autoscaler)
		}
	})
}

// start starts the server.
func (w *webhook) start() {
	w.program.StartReady()
	ready := time.Since(w.program.Started)
	w.Add(harness.On(fmt.Sprintf("%d HPAs, %d namespaces, %d nodes", w.autoscalers, w.namespaces, w.nodes),
		harness.AtMost("start until ready", "%.3f s", ready.Seconds(), 2),
		memory("resident memory", w.program, 60),
	))
}

// loads measures requests for Pods at two rates, which go to all handlers for Pods in turn. The floor is the result of the same requests to
// a server that does nothing.
func (w *webhook) loads(bare, server target) {
	mixed := w.podReviews()
	w.send(server, mixed, 500, w.single) // warm-up
	for _, rate := range []int{500, 1500} {
		floor, own := w.send(bare, mixed, rate, w.load), w.send(server, mixed, rate, w.load)
		w.Step("Pods at %d requests/s, all %d handlers for Pods in turn, bodies of %d bytes", rate, len(mixed), len(mixed[0].body))
		w.Add(harness.On(fmt.Sprintf("%d Pods/s", rate),
			harness.AtMost("processor time for each request", "%.3f ms", own.processor, 0.25).WithNote("floor %.3f ms", floor.processor),
			harness.AtMost("median of a request", "%.3f ms", own.median, 1.2).WithNote("floor %.3f ms", floor.median),
			harness.AtMost("99th percentile of a request", "%.3f ms", own.tail, 4).WithNote("floor %.3f ms", floor.tail),
		))
	}
}

// handlers measures each handler alone.
func (w *webhook) handlers(server target) {
	for _, path := range slices.Sorted(maps.Keys(w.recorded)) {
		found := w.send(server, []review{{path, w.recorded[path]}}, 1000, w.single)
		row := harness.AtMost("one handler at 1,000/s: processor time", "%.3f ms", found.processor, 0.25)
		row.Figure += fmt.Sprintf(" (p50 %.2f ms, p99 %.2f ms)", found.median, found.tail)
		w.Add(harness.On(path, row))
	}
}
