package managedresource

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
)

// conditionLimit is how long a condition may take before the run fails: this distinguishes a controller that writes no conditions from a
// slow one.
const conditionLimit = 20 * time.Second

// latency measures how long conditions take to follow a Deployment's status. Each Deployment is in a separate set. There is no Deployment
// controller: the benchmark writes the status, so that exactly one change is timed.
type latency struct {
	deployments int
	// together lists how many Deployments change at the same time, one round for each number.
	together []int
}

// latencyRound is one direction of a round.
type latencyRound struct {
	what     string
	together int
	// took is the time from the change in the API server, withWrite that from before the request.
	took, withWrite []time.Duration
}

func (l latency) measure(r *harness.Run) {
	rounds := l.plan()
	defer func() { r.Add(l.rows(rounds)) }()
	w := workload{size: size{sets: l.deployments, objects: 1}, calm: 100 * time.Millisecond}
	open(r, setup{}, w).measureLatency(rounds)
}

const (
	rolledOut  = "Deployment rolled out → Healthy, not Progressing"
	brokenDown = "Deployment broken → not Healthy, Progressing"
)

func (l latency) plan() []latencyRound {
	rounds := make([]latencyRound, 0, 2*len(l.together))
	for _, n := range l.together {
		rounds = append(rounds, latencyRound{what: rolledOut, together: n}, latencyRound{what: brokenDown, together: n})
	}
	return rounds
}

func (l latency) rows(rounds []latencyRound) []harness.Row {
	const middle, most = 50 * time.Millisecond, 500 * time.Millisecond
	rows := make([]harness.Row, 0, len(rounds))
	for _, round := range rounds {
		r := harness.Row{
			Measure: round.what + ", median / p95 / max", Workload: fmt.Sprintf("%d, %d at a time", l.deployments, round.together),
			Target: "≤ " + harness.Milliseconds(middle) + " / – / " + harness.Milliseconds(most), Figure: tails(round.took),
			Verdict: harness.Judge(len(round.took) == l.deployments && harness.Median(round.took) <= middle && harness.Longest(round.took) <= most),
			Note:    fmt.Sprintf("%s: %s from before the request that changes the status", round.what, tails(round.withWrite)),
		}.If(len(round.took) > 0)
		rows = append(rows, r)
	}
	return rows
}

// tails returns median, 95th percentile and maximum.
func tails(values []time.Duration) string {
	text := func(percent int) string { return harness.Milliseconds(harness.Percentile(values, percent)) }
	return text(50) + " / " + text(95) + " / " + text(100)
}

// measureLatency fills the rounds as far as it gets.
func (b *bench) measureLatency(rounds []latencyRound) {
	b.startController()
	names := b.createLatencyNamespaces()
	w := b.follow(subject{resource: managedResources, full: true}, subject{resource: deployments})
	defer w.stop()
	t := newConditionTracker()
	t.expect(broken(), names...)
	b.Step("creating %d sets with a Deployment each", len(names))
	b.Parallel(b.sets, workers, func(set int) {
		data, err := secretData([]item{rolledDeployment(set, 1, "")})
		b.Check(err)
		b.Check(b.createSet(b.Ctx, set, data))
	})
	b.awaitConditions(w, t, "the sets to see that their Deployments are not rolled out")
	generations := b.createPods()
	for i := range rounds {
		b.settle()
		b.latencyRound(w, t, &rounds[i], generations)
	}
}

// createLatencyNamespaces creates the namespaces and returns the names of the sets. In a namespace without a controller manager, the
// ServiceAccount for Pods is missing.
func (b *bench) createLatencyNamespaces() []string {
	names := make([]string, b.sets)
	b.Parallel(b.sets, workers, func(set int) {
		names[set] = setName(set)
		namespace := namespaceOf(oursRun, set)
		b.target.CreateNamespace(namespace)
		b.Check(create(b.Ctx, b.target.objects, item{serviceAccounts, local.NewObject("v1", "ServiceAccount", namespace, "default", nil)}))
	})
	return names
}

// rolledDeployment returns a Deployment with replicas, with the namespace and the name of the set. Another version means another Pod
// template.
func rolledDeployment(set, replicas int, version string) item {
	spec := deploymentSpec(setName(set))
	spec["replicas"], spec["revisionHistoryLimit"] = int64(replicas), int64(1)
	_ = unstructured.SetNestedField(spec, version, "template", "metadata", "annotations", "bench.espalier.dev/version")
	o := local.NewObject("apps/v1", "Deployment", namespaceOf(oursRun, set), setName(set), map[string]any{"spec": spec})
	o.SetLabels(map[string]string{runLabel: oursRun})
	return item{deployments, o}
}

// createPods creates the ReplicaSet and the Pod of a complete rollout for each Deployment, and returns the Deployments' generations.
func (b *bench) createPods() []int64 {
	generations := make([]int64, b.sets)
	b.Parallel(b.sets, workers, func(set int) {
		namespace, name := namespaceOf(oursRun, set), setName(set)
		deployment, err := b.target.objects.Resource(deployments).Namespace(namespace).Get(b.Ctx, name, metav1.GetOptions{})
		b.Checkf(err, "read Deployment %s", name)
		generations[set] = deployment.GetGeneration()
		spec := deploymentSpec(name)
		spec["replicas"] = int64(1)
		replicaSet := local.NewObject("apps/v1", "ReplicaSet", namespace, name+"-1", map[string]any{"spec": spec})
		replicaSet.SetOwnerReferences([]metav1.OwnerReference{ownedBy(deployment)})
		created, err := b.target.objects.Resource(replicaSets).Namespace(namespace).Create(b.Ctx, replicaSet, metav1.CreateOptions{})
		b.Checkf(err, "create %s", describe(replicaSet))
		podSpec, _, _ := unstructured.NestedMap(spec, "template", "spec")
		pod := local.NewObject("v1", "Pod", namespace, name+"-1-a", map[string]any{"spec": podSpec})
		pod.SetLabels(map[string]string{"app": name})
		pod.SetOwnerReferences([]metav1.OwnerReference{ownedBy(created)})
		b.Check(create(b.Ctx, b.target.objects, item{pods, pod}))
	})
	return generations
}

func ownedBy(o *unstructured.Unstructured) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName(), UID: o.GetUID(), Controller: ptr.To(true),
	}
}

// awaitConditions waits for what the tracker expects.
func (b *bench) awaitConditions(w *follower, t *conditionTracker, what string) {
	if t.done() {
		return
	}
	if _, err := w.await(b.Ctx, conditionLimit, what, t.see); err != nil {
		b.Check(fmt.Errorf("%w; of those that do not say %s, %s: does this controller keep the conditions at all?", err, t.want, t.explain()))
	}
}

// latencyRound changes all Deployments, the given number at a time.
func (b *bench) latencyRound(w *follower, t *conditionTracker, round *latencyRound, generations []int64) {
	defer b.Within("%s, %d at a time", round.what, round.together)
	want, status := settled(), settledStatus
	if round.what == brokenDown {
		want, status = broken(), brokenStatus
	}
	begin := b.mark()
	profiled := b.profile(fmt.Sprintf("latency-%s-%d", want.healthy, round.together), 5*time.Second)
	sets := make([]int, b.sets)
	for i := range sets {
		sets[i] = i
	}
	for some := range slices.Chunk(sets, round.together) {
		b.changeTogether(w, t, round, want, some, func(set int) string { return b.writeStatus(set, status, generations[set]) })
		b.Pause(repairPause)
	}
	profiled()
	b.Step("%s, %d at a time: median / p95 / max %s", round.what, round.together, tails(round.took))
	b.Detail("from before the request that changes the status: %s", tails(round.withWrite))
	b.reportRequests(begin)
}

// changeTogether writes the status of the Deployments of some sets, of which write returns the new version, and waits until the sets have
// the wanted conditions.
func (b *bench) changeTogether(
	w *follower, t *conditionTracker, round *latencyRound, want verdicts, sets []int, write func(set int) (version string),
) {
	names := make([]string, 0, len(sets))
	for _, set := range sets {
		names = append(names, setName(set))
	}
	w.drain(t.see)
	t.expect(want, names...)
	if len(t.missing) != len(sets) {
		b.Check(fmt.Errorf("the sets say %s before their Deployments have changed", want))
	}
	type answer struct {
		sent, answered time.Time
		version        string
	}
	answers := make([]answer, len(sets))
	b.Together(
		func() {
			b.Parallel(len(sets), workers, func(i int) {
				answers[i].sent = time.Now()
				answers[i].version = write(sets[i])
				answers[i].answered = time.Now()
			})
		},
		func() { b.awaitConditions(w, t, "the conditions to follow their Deployments") },
	)
	for i, name := range names {
		round.took = append(round.took, max(0, t.reached[name].Sub(t.begin(name, answers[i].version, answers[i].answered))))
		round.withWrite = append(round.withWrite, t.reached[name].Sub(answers[i].sent))
	}
}

// writeStatus replaces a Deployment's status as its controller would, and returns the new version.
func (b *bench) writeStatus(set int, status string, generation int64) (version string) {
	patch := fmt.Appendf(nil, status, generation)
	written, err := b.target.objects.Resource(deployments).Namespace(namespaceOf(oursRun, set)).Patch(b.Ctx, setName(set),
		types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kube-controller-manager"}, "status")
	b.Checkf(err, "write status of Deployment %s", setName(set))
	return written.GetResourceVersion()
}

// settledStatus is a patch with the status that the Deployment controller writes when the last Pod of a rollout is ready. It gets the
// generation of the Deployment.
const settledStatus = `{"status": {
	"observedGeneration": %d, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1, "unavailableReplicas": null,
	"conditions": [
		{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "Deployment has minimum availability."},
		{
			"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
			"message": "The new ReplicaSet has successfully progressed."
		}
	]
}}`

// brokenStatus is the one when that Pod has failed and another one is being created.
const brokenStatus = `{"status": {
	"observedGeneration": %d, "replicas": 1, "updatedReplicas": 1, "readyReplicas": null, "availableReplicas": null, "unavailableReplicas": 1,
	"conditions": [
		{
			"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable",
			"message": "Deployment does not have minimum availability."
		},
		{"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated", "message": "The ReplicaSet is progressing."}
	]
}}`
