package binaries

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
)

// node measures node-controller: the time from when the last critical Pod of a Node is ready until its taint is removed, while very many
// Nodes join. The floor of the same run is a bare client with the permissions of an administrator. It removes another taint from other
// Nodes as soon as its own watch shows that the last Pod is ready, without any check.
type node struct {
	bench
	// nodes is the number of Nodes for node-controller. For every ten of them there is one additional Node for the bare client.
	nodes, daemonSets int
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
		Sizes: []harness.Size{
			harness.Sized(&n.nodes, "nodes", 1000, 20, "`number` of Nodes that join"),
			harness.Sized(&n.daemonSets, "daemonsets", 5, 5, "`number` of critical DaemonSets; each has a Pod on every Node"),
		},
		Jobs: harness.One(n.measure),
	}
}

func (n *node) measure(r *harness.Run) {
	n.bench = open(r, nodeBinary, local.Options{KWOK: true, ControllerManager: true, Scheduler: true})
	n.program.Configure(harness.Config + "controllers: {node: {enabled: true}}\n")
	n.program.StartReady()
	seen := n.join()
	ours, early := seen.latencies(oursPrefix)
	floor, _ := seen.latencies(floorPrefix)
	const target = time.Second
	n.Add(harness.On(fmt.Sprintf("%d Nodes × %d Pods", n.nodes, n.daemonSets),
		harness.Row{
			Measure: "last critical Pod ready until the taint is removed", Target: "median ≤ " + harness.Seconds(target), Figure: tails(ours),
			Verdict: harness.Judge(harness.Median(ours) <= target), Enforced: true,
		},
		harness.Inform("the same, bare client", "%s", tails(floor)),
		harness.Exactly("taints removed before the last Pod was ready", early, 0),
	))
}

func tails(values []time.Duration) string {
	show := func(percent int) string {
		return harness.Percentile(values, percent).Round(100 * time.Microsecond).String()
	}
	return fmt.Sprintf("median %s, 99 %% %s, slowest %s (%d Nodes)", show(50), show(99), show(100), len(values))
}

// join creates all Nodes, and follows them until the last taint is removed.
func (n *node) join() *nodeObserver {
	n.createDaemonSets()
	total := n.nodes + (n.nodes+9)/10
	seen := &nodeObserver{
		nodes: total, pods: n.daemonSets, complete: make(chan string, total),
		ready: map[string]sets.Set[types.UID]{}, last: map[string]time.Time{}, gone: map[string]time.Time{},
	}
	follower := n.Follow(
		harness.Subject{Cluster: n.cluster, Full: true, Kind: corev1.SchemeGroupVersion.WithKind("Node")},
		harness.Subject{
			Cluster: n.cluster, Full: true, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Labels: map[string]string{critical: "true"},
		})
	defer follower.Stop()
	n.Step("joining: %d Nodes, %d critical DaemonSets; %d of the Nodes are for the bare client", total, n.daemonSets, total-n.nodes)
	begin := time.Now()
	n.Together(
		func() {
			n.Parallel(total, 1, func(i int) { n.createNode(i, i%11 == 10 || i == total-1) })
			n.Step("joined after %s; waiting for the last taint to go", harness.Seconds(time.Since(begin)))
		},
		func() {
			defer close(seen.complete)
			follower.Until(harness.Patience, fmt.Sprintf("%d Nodes without taint", total), seen.see)
			n.Pause(100 * time.Millisecond) // the watch of the Pods may be behind the watch of the Nodes
			follower.Drain(seen.see)
		},
		func() { n.Parallel(5, 5, func(int) { n.freeFloor(seen.complete) }) }, // as many workers as node-controller has
	)
	n.Step("all within %s", harness.Seconds(time.Since(begin)))
	return seen
}

func (n *node) createNode(i int, forFloor bool) {
	prefix, taint := oursPrefix, ourTaint
	if forFloor {
		prefix, taint = floorPrefix, floorTaint
	}
	name := fmt.Sprintf("%s%d", prefix, i)
	n.cluster.Create(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: taint, Effect: corev1.TaintEffectNoSchedule}}},
	})
}

func (n *node) createDaemonSets() {
	for i := range n.daemonSets {
		name := fmt.Sprintf("critical-%d", i)
		n.cluster.Create(&appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: harness.Namespace, Name: name, Labels: map[string]string{critical: "true"}},
			Spec: appsv1.DaemonSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name, critical: "true"}},
					Spec: corev1.PodSpec{
						Containers:                    []corev1.Container{{Name: "c", Image: "none"}},
						Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
						AutomountServiceAccountToken:  ptr.To(false),
						TerminationGracePeriodSeconds: ptr.To[int64](0),
					},
				},
			},
		})
	}
}

// nodeObserver records when the last Pod of each Node is ready and when its taint is removed.
type nodeObserver struct {
	nodes, pods int
	// complete receives the Nodes of the floor whose Pods are all ready.
	complete chan string

	ready      map[string]sets.Set[types.UID]
	last, gone map[string]time.Time
}

// see processes an event and returns true when all Nodes are without taint.
func (o *nodeObserver) see(e harness.Event) bool {
	switch object := e.Object.(type) {
	case *corev1.Pod:
		o.seePod(object, e.At)
	case *corev1.Node:
		waits := slices.ContainsFunc(object.Spec.Taints, func(t corev1.Taint) bool { return t.Key == ourTaint || t.Key == floorTaint })
		ours := strings.HasPrefix(object.Name, oursPrefix) || strings.HasPrefix(object.Name, floorPrefix)
		if ours && !waits && o.gone[object.Name].IsZero() {
			o.gone[object.Name] = e.At
		}
	}
	return len(o.gone) == o.nodes
}

func (o *nodeObserver) seePod(pod *corev1.Pod, at time.Time) {
	name := pod.Spec.NodeName
	isReady := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	if !isReady || name == "" {
		return
	}
	if o.ready[name] == nil {
		o.ready[name] = sets.Set[types.UID]{}
	}
	if o.ready[name].Has(pod.UID) || o.ready[name].Insert(pod.UID).Len() != o.pods {
		return
	}
	o.last[name] = at
	if strings.HasPrefix(name, floorPrefix) {
		o.complete <- name
	}
}

// freeFloor is the bare client: it removes all taints of each Node with one write and without a read, which is the fastest possible way.
func (n *node) freeFloor(complete <-chan string) {
	for name := range complete {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"taints":null}}`))
		n.Checkf(n.cluster.Client.Patch(n.Ctx, node, patch), "bare client")
	}
}

// latencies returns the times from the last ready Pod to the removal of the taint; early is how many taints were removed before the last
// Pod was ready.
func (o *nodeObserver) latencies(prefix string) (all []time.Duration, early int) {
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
