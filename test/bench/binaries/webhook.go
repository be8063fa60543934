package binaries

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/test/bench/harness"
)

// webhook measures webhook-server.
//
// Reviews are those that the API server itself sends about a Pod of 5 containers with 10 variables each, a Deployment, a
// HorizontalPodAutoscaler, an EndpointSlice, a Secret and a Worker: it first calls a recorder. They are then sent to the server, a separate
// process with all handlers enabled, by one HTTP/2 client over TLS on loopback, in bursts of ten that share one connection. Processor time
// is the server's, from the kernel; allocations are from its metrics. In the same run, a floor is measured: a server of the same library
// that reads the same bodies and allows everything.
//
// The last part creates Pods through the API server, alternately with and without webhooks; then again with floors instead of the server:
// one that returns the server's patches, which shows the cost of the API server, and one that allows everything.
type webhook struct {
	autoscalers, namespaces, nodes, pods int
	// load is the duration of each rate, single is the duration of the measurement of each handler.
	load, single time.Duration
	// certificates is the folder of the certificate of all servers here. The flags floor, certificates and answers make this process a floor.
	floor, certificates, answers string

	*harness.Run
	cluster *harness.Cluster
	program *harness.Program
	cfg     *config.ResourceManagerConfiguration
	// authority has signed that certificate, in PEM.
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
	w := &webhook{load: 20 * time.Second, single: 5 * time.Second}
	return harness.Benchmark{
		Name: "webhook", Summary: "admission reviews, and creations of Pods, with webhook-server",
		Flags: func(flags *flag.FlagSet) {
			flags.IntVar(&w.autoscalers, "autoscalers", 5000, "`number` of HorizontalPodAutoscalers in the caches")
			flags.IntVar(&w.namespaces, "namespaces", 1000, "`number` of namespaces")
			flags.IntVar(&w.nodes, "nodes", 1000, "`number` of Nodes")
			flags.IntVar(&w.pods, "pods", 400, "`number` of Pods that are created with webhooks, and of those without")
			flags.StringVar(&w.floor, "floor", "", "serve as floor at this address (used by the benchmark itself)")
			flags.StringVar(&w.certificates, "certificates", "", "folder of the floor's certificate")
			flags.StringVar(&w.answers, "answers", "", "file of the patches that the floor answers with; empty for none")
		},
		Smoke: func() {
			w.autoscalers, w.namespaces, w.nodes, w.pods = 50, 10, 10, 20
			w.load, w.single = time.Second, 300*time.Millisecond
		},
		Jobs: job(w.measure, &w.autoscalers, &w.namespaces, &w.nodes, &w.pods),
	}
}

func (w *webhook) measure(r *harness.Run) {
	w.Run = r
	if w.floor != "" {
		w.runFloor()
		return
	}
	w.prepare()
	w.fill()
	w.record()
	w.start()
	w.loads()
	w.handlers()
	w.podCreation()
}

// prepare starts the API server, and writes the configuration of the webhook server.
func (w *webhook) prepare() {
	w.cluster, w.program = w.StartClusterFor(webhookBinary, harness.Setup{})
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
	memory, _ := w.program.Memory()
	w.Add(harness.On(fmt.Sprintf("%d HPAs, %d namespaces, %d nodes", w.autoscalers, w.namespaces, w.nodes),
		harness.AtMost("start until ready", "%.3f s", ready.Seconds(), 2),
		harness.AtMost("resident memory", "%.0f MiB", mebibytes(memory), 60),
	))
}

// loads measures Pods at two rates, mixed over all handlers for Pods, and the floor for each.
func (w *webhook) loads() {
	bare, server, mixed := w.startFloor(""), target{w.program.PID(), w.program.WebhookPort, w.program}, w.podReviews()
	w.send(server, mixed, 500, w.single) // warm-up
	for _, rate := range []int{500, 1500} {
		floor := w.send(bare, mixed, rate, w.load)
		profiled := w.Profile(fmt.Sprintf("reviews-%d", rate), w.load-time.Second, w.program, nil)
		own := w.send(server, mixed, rate, w.load)
		profiled()
		w.Step("Pods at %d requests/s, all %d handlers for Pods in turn, bodies of %d bytes", rate, len(mixed), len(mixed[0].body))
		w.Add(harness.On(fmt.Sprintf("%d Pods/s", rate),
			harness.AtMost("processor time for each request", "%.3f ms", own.processor, 0.25),
			harness.AtMost("median of a request", "%.3f ms", own.median, 1.2),
			harness.AtMost("99th percentile of a request", "%.3f ms", own.tail, 4),
			harness.Inform("processor time ÷ floor", "%.2f", own.processor/floor.processor),
			harness.Inform("median ÷ floor", "%.2f", own.median/floor.median),
			harness.Inform("99th percentile of the floor", "%.3f ms", floor.tail),
			harness.Inform("allocations for each request", "%.0f objects, %.1f KiB", own.objects, own.bytes/1024),
		))
	}
}

// handlers measures each handler alone.
func (w *webhook) handlers() {
	for _, path := range slices.Sorted(maps.Keys(w.recorded)) {
		server := target{w.program.PID(), w.program.WebhookPort, w.program}
		found := w.send(server, []review{{path, w.recorded[path]}}, 1000, w.single)
		row := harness.AtMost("one handler at 1,000/s: processor time", "%.3f ms", found.processor, 0.25)
		row.Figure += fmt.Sprintf(" (p50 %.2f ms, p99 %.2f ms, %.0f objects, %.1f KiB)",
			found.median, found.tail, found.objects, found.bytes/1024)
		w.Add(harness.On(path, row))
	}
	memory, _ := w.program.Memory()
	w.Add([]harness.Row{harness.Inform("resident memory after these loads", "%s", harness.Mebibytes(memory))})
}
