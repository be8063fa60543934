package binaries

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/test/bench/harness"
)

// node measures node-controller: the time from when the last critical Pod of a Node is ready until its taint is removed, while very many
// Nodes join. The floor of the same run is a bare client, an administrator, that removes another taint from some of the Nodes as soon as
// its own watch shows that the last Pod is ready, without any check.
type node struct {
	// nodes is the number of Nodes for node-controller; for every ten of them there is an additional one for the bare client.
	nodes, daemonSets int
	rate              float64
	ownPods           bool

	*harness.Run
	cluster *harness.Cluster
	program *harness.Program
	seen    *nodeObserver
}

const (
	nodeBinary = "node-controller"
	ourTaint   = "node.gardener.cloud/critical-components-not-ready"
	floorTaint = "bench.espalier.dev/not-ready"
	critical   = "node.gardener.cloud/critical-component"
	// The prefixes of the names of the Nodes of node-controller and of the bare client.
	oursPrefix, floorPrefix = "ours-", "floor-"
)

func nodeBenchmark() harness.Benchmark {
	n := &node{}
	return harness.Benchmark{
		Name: "node", Summary: "Nodes that join with critical Pods, by node-controller",
		Flags: func(flags *flag.FlagSet) {
			flags.IntVar(&n.nodes, "nodes", 1000, "`number` of Nodes that join")
			flags.IntVar(&n.daemonSets, "daemonsets", 5, "`number` of critical DaemonSets; each has a Pod on every Node")
			flags.Float64Var(&n.rate, "rate", 0, "Nodes that join in a second; 0: as fast as the API server takes them")
			flags.BoolVar(&n.ownPods, "own-pods", false, "create the Pods here, instead of by DaemonSet controller and scheduler")
		},
		Smoke: func() { n.nodes = 20 },
		Jobs:  job(n.measure, &n.nodes, &n.daemonSets),
	}
}

func (n *node) measure(r *harness.Run) {
	n.Run = r
	ctx, cancel := context.WithTimeoutCause(r.Ctx, 20*time.Minute, errors.New("not finished within 20 minutes"))
	defer cancel()
	r.Ctx = ctx
	n.start()
	n.join()
	ours, early := n.seen.latencies(oursPrefix)
	floor, _ := n.seen.latencies(floorPrefix)
	requests := n.cluster.Requests(0, harness.User(nodeBinary)).Only(func(q harness.Request) bool { return q.Verb != "watch" })
	pods := "by DaemonSet controller and scheduler of Kubernetes"
	if n.ownPods {
		pods = "by the benchmark"
	}
	const target = time.Second
	perNode := float64(len(requests)) / float64(n.nodes)
	n.Add(harness.On(fmt.Sprintf("%d Nodes × %d Pods", n.nodes, n.daemonSets),
		harness.Row{
			Measure: "last critical Pod ready until the taint is removed", Target: "median ≤ " + harness.Seconds(target), Figure: tails(ours),
			Verdict: harness.Judge(harness.Median(ours) <= target), Enforced: true,
		}.WithNote("Pods are created %s", pods),
		harness.Inform("the same, bare client", "%s", tails(floor)),
		harness.Ratio("the same, median ÷ bare client", 0, harness.Median(ours), harness.Median(floor)),
		harness.Exactly("taints removed before the last Pod was ready", early, 0),
		harness.Inform("requests per Node", "%.2f", perNode).WithNote("%s", requests.Per(float64(n.nodes), "%.2f")),
		peakMemory(n.program),
	))
}

func tails(values []time.Duration) string {
	show := func(percent int) string {
		return harness.Percentile(values, percent).Round(100 * time.Microsecond).String()
	}
	return fmt.Sprintf("median %s, 99 %% %s, slowest %s (%d Nodes)", show(50), show(99), show(100), len(values))
}

// start starts the cluster and the binary with its default settings, and waits until its caches are filled.
func (n *node) start() {
	n.cluster, n.program = n.StartClusterFor(nodeBinary, harness.Setup{
		KWOK: true, ControllerManager: true, Scheduler: !n.ownPods, Audited: []string{harness.User(nodeBinary)},
	})
	n.program.Configure(harness.Config + "controllers: {node: {enabled: true}}\n")
	n.program.StartReady()
}

// join creates all Nodes and waits until the last taint is removed.
func (n *node) join() {
	daemonSets := n.createDaemonSets()
	n.observe()
	total := n.nodes + (n.nodes+9)/10
	n.Step("joining: %d Nodes, %d critical DaemonSets; %d of the Nodes are for the bare client", total, n.daemonSets, total-n.nodes)
	begin := time.Now()
	for i := range total {
		name := fmt.Sprintf("%s%d", oursPrefix, i)
		if i%11 == 10 || i == total-1 {
			name = fmt.Sprintf("%s%d", floorPrefix, i)
		}
		if n.ownPods { // before the Node, which would otherwise have nothing to wait for
			n.createPods(name, daemonSets)
		}
		n.createNode(name)
		if n.rate > 0 {
			due := begin.Add(time.Duration(float64(i+1) / n.rate * float64(time.Second)))
			n.Pause(time.Until(due))
		}
	}
	n.Step("joined after %s; waiting for the last taint to go", harness.Seconds(time.Since(begin)))
	n.program.Await(fmt.Sprintf("%d Nodes without taint", total), func(context.Context) error {
		if freed := n.seen.freed(); freed < total {
			return fmt.Errorf("there are %d", freed)
		}
		return nil
	})
	n.Step("all within %s", harness.Seconds(time.Since(begin)))
}

// createDaemonSets creates the DaemonSets. If the benchmark creates the Pods itself, the DaemonSet controller must not interfere: no Node
// matches the template then, so that node-controller waits for the Pods, and not for the DaemonSets.
func (n *node) createDaemonSets() []*appsv1.DaemonSet {
	all := make([]*appsv1.DaemonSet, 0, n.daemonSets)
	for i := range n.daemonSets {
		name := fmt.Sprintf("critical-%d", i)
		labels := map[string]string{"app": name, critical: "true"}
		d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: harness.Namespace, Name: name, Labels: map[string]string{critical: "true"},
		}}
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
		d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: "c", Image: "none"}},
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			AutomountServiceAccountToken:  ptr.To(false),
			TerminationGracePeriodSeconds: ptr.To[int64](0),
		}}
		if n.ownPods {
			d.Spec.Template.Spec.NodeSelector = map[string]string{"bench.espalier.dev/no-node": "has-it"}
		}
		n.cluster.Create(d)
		all = append(all, d)
	}
	return all
}

func (n *node) createNode(name string) {
	key := ourTaint
	if strings.HasPrefix(name, floorPrefix) {
		key = floorTaint
	}
	n.cluster.Create(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}},
	})
}

// createPods creates the Pods as the DaemonSet controller would, already assigned to the Node.
func (n *node) createPods(name string, daemonSets []*appsv1.DaemonSet) {
	for _, each := range daemonSets {
		pod := &corev1.Pod{ObjectMeta: each.Spec.Template.ObjectMeta, Spec: *each.Spec.Template.Spec.DeepCopy()}
		pod.Namespace, pod.Name, pod.Spec.NodeName, pod.Spec.NodeSelector = harness.Namespace, each.Name+"-"+name, name, nil
		n.cluster.Create(pod)
	}
}

// nodeObserver records when the last Pod of each Node is ready and when its taint is removed.
type nodeObserver struct {
	pods int
	// complete receives the Nodes of the floor whose Pods are all ready.
	complete chan string

	mu         sync.Mutex
	ready      map[string]sets.Set[types.UID]
	last, gone map[string]time.Time
}

// observe starts the observer with its own watches, and the bare client.
func (n *node) observe() {
	o := &nodeObserver{
		pods: n.daemonSets, complete: make(chan string, 10_000),
		ready: map[string]sets.Set[types.UID]{}, last: map[string]time.Time{}, gone: map[string]time.Time{},
	}
	n.seen = o
	critical := informers.NewSharedInformerFactoryWithOptions(n.cluster.Typed, 0, informers.WithNamespace(harness.Namespace))
	nodes := informers.NewSharedInformerFactory(n.cluster.Typed, 0)
	_, errPods := critical.Core().V1().Pods().Informer().AddEventHandler(onChange(o.sawPod))
	_, errNodes := nodes.Core().V1().Nodes().Informer().AddEventHandler(onChange(o.sawNode))
	n.Checkf(errors.Join(errPods, errNodes), "watch")
	for _, factory := range []informers.SharedInformerFactory{critical, nodes} {
		factory.Start(n.Ctx.Done())
		factory.WaitForCacheSync(n.Ctx.Done())
	}
	for range 5 { // as many workers as node-controller has
		go n.freeFloor()
	}
}

func onChange[T any](do func(T)) cache.ResourceEventHandlerFuncs {
	see := func(object any) {
		if typed, ok := object.(T); ok {
			do(typed)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, after any) { see(after) }}
}

func (o *nodeObserver) sawPod(pod *corev1.Pod) {
	name := pod.Spec.NodeName
	isReady := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	if !isReady || name == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ready[name] == nil {
		o.ready[name] = sets.Set[types.UID]{}
	}
	if o.ready[name].Has(pod.UID) {
		return
	}
	if o.ready[name].Insert(pod.UID).Len() != o.pods {
		return
	}
	o.last[name] = time.Now()
	if strings.HasPrefix(name, floorPrefix) {
		o.complete <- name
	}
}

func (o *nodeObserver) sawNode(object *corev1.Node) {
	waits := slices.ContainsFunc(object.Spec.Taints, func(t corev1.Taint) bool { return t.Key == ourTaint || t.Key == floorTaint })
	ours := strings.HasPrefix(object.Name, oursPrefix) || strings.HasPrefix(object.Name, floorPrefix)
	if waits || !ours {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone[object.Name].IsZero() {
		o.gone[object.Name] = time.Now()
	}
}

// freeFloor removes all taints with one blind write, which is the fastest possible way.
func (n *node) freeFloor() {
	for {
		select {
		case <-n.Ctx.Done():
			return
		case name := <-n.seen.complete:
			patch := []byte(`{"spec":{"taints":null}}`)
			_, err := n.cluster.Typed.CoreV1().Nodes().Patch(n.Ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
			if n.Ctx.Err() == nil { // otherwise the measurement is over
				n.Checkf(err, "bare client")
			}
		}
	}
}

func (o *nodeObserver) freed() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.gone)
}

// latencies returns the times from the last ready Pod to the removal of the taint; early is how many taints were removed before.
func (o *nodeObserver) latencies(prefix string) (all []time.Duration, early int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, gone := range o.gone {
		switch {
		case !strings.HasPrefix(name, prefix):
		case o.last[name].IsZero():
			early++
		default:
			all = append(all, gone.Sub(o.last[name])) // negative if one watch is ahead of the other
		}
	}
	return all, early
}
