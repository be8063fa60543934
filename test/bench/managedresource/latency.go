package managedresource

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

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

func (l latency) measure(ctx context.Context, r *harness.Run) ([]harness.Row, error) {
	w := workload{size: size{sets: l.deployments, objects: 1}, calm: 100 * time.Millisecond}
	rounds := l.plan()
	b, err := open(ctx, r, setup{}, w)
	if err == nil {
		err = b.measureLatency(ctx, rounds)
	}
	return l.rows(rounds), err
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
func (b *bench) measureLatency(ctx context.Context, rounds []latencyRound) error {
	if err := b.startController(ctx); err != nil {
		return err
	}
	names, err := b.createLatencySets(ctx)
	if err != nil {
		return err
	}
	w, err := b.follow(ctx, subject{resource: managedResources, full: true}, subject{resource: deployments})
	if err != nil {
		return err
	}
	defer w.stop()
	t := newConditionTracker()
	t.expect(broken(), names...)
	b.Step("creating %d sets with a Deployment each", len(names))
	err = harness.Parallel(ctx, b.sets, workers, func(ctx context.Context, set int) error {
		data, failure := secretData([]item{rolledDeployment(set, 1, "")})
		if failure != nil {
			return failure
		}
		return b.createSet(ctx, set, data)
	})
	if err != nil {
		return err
	}
	err = awaitConditions(ctx, w, t, "the sets to see that their Deployments are not rolled out")
	if err != nil {
		return err
	}
	generations, err := b.createPods(ctx)
	if err != nil {
		return err
	}
	for i := range rounds {
		if err := b.settle(ctx); err != nil {
			return err
		}
		if err := b.latencyRound(ctx, w, t, &rounds[i], generations); err != nil {
			return err
		}
	}
	return nil
}

// createLatencySets creates the namespaces and returns the names of the sets. In a namespace without a controller manager, the
// ServiceAccount for Pods is missing.
func (b *bench) createLatencySets(ctx context.Context) ([]string, error) {
	names := make([]string, b.sets)
	return names, harness.Parallel(ctx, b.sets, workers, func(ctx context.Context, set int) error {
		names[set] = setName(set)
		namespace := namespaceOf(oursRun, set)
		if err := b.target.CreateNamespace(ctx, namespace); err != nil {
			return err
		}
		return create(ctx, b.target.objects, item{serviceAccounts, object("v1", "ServiceAccount", namespace, "default", nil)})
	})
}

// rolledDeployment returns a Deployment with replicas, with the namespace and the name of the set. Another version means another Pod
// template.
func rolledDeployment(set, replicas int, version string) item {
	selector := map[string]any{"app": setName(set)}
	spec := deploymentSpec(selector)
	spec["replicas"], spec["revisionHistoryLimit"] = int64(replicas), int64(1)
	_ = unstructured.SetNestedField(spec, version, "template", "metadata", "annotations", "bench.espalier.dev/version")
	o := object("apps/v1", "Deployment", namespaceOf(oursRun, set), setName(set), map[string]any{"spec": spec})
	o.SetLabels(map[string]string{runLabel: oursRun})
	return item{deployments, o}
}

// createPods creates the ReplicaSet and the Pod of a complete rollout for each Deployment, and returns the Deployments' generations.
func (b *bench) createPods(ctx context.Context) ([]int64, error) {
	generations := make([]int64, b.sets)
	return generations, harness.Parallel(ctx, b.sets, workers, func(ctx context.Context, set int) error {
		namespace, name := namespaceOf(oursRun, set), setName(set)
		deployment, err := b.target.objects.Resource(deployments).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read Deployment %s: %w", name, err)
		}
		generations[set] = deployment.GetGeneration()
		spec := deploymentSpec(map[string]any{"app": name})
		spec["replicas"] = int64(1)
		replicaSet := object("apps/v1", "ReplicaSet", namespace, name+"-1", map[string]any{"spec": spec})
		replicaSet.SetOwnerReferences([]metav1.OwnerReference{ownedBy(deployment)})
		created, err := b.target.objects.Resource(replicaSets).Namespace(namespace).Create(ctx, replicaSet, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create %s: %w", describe(replicaSet), err)
		}
		podSpec, _, _ := unstructured.NestedMap(spec, "template", "spec")
		pod := object("v1", "Pod", namespace, name+"-1-a", map[string]any{"spec": podSpec})
		pod.SetLabels(map[string]string{"app": name})
		pod.SetOwnerReferences([]metav1.OwnerReference{ownedBy(created)})
		return create(ctx, b.target.objects, item{pods, pod})
	})
}

func ownedBy(o *unstructured.Unstructured) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName(), UID: o.GetUID(), Controller: &yes}
}

// awaitConditions waits for what the tracker expects.
func awaitConditions(ctx context.Context, w *follower, t *conditionTracker, what string) error {
	if t.done() {
		return nil
	}
	if _, err := w.until(ctx, conditionLimit, what, t.see); err != nil {
		return fmt.Errorf("%w; of those that do not say %s, %s: does this controller keep the conditions at all?", err, t.want, t.explain())
	}
	return nil
}

// latencyRound changes all Deployments, the given number at a time.
func (b *bench) latencyRound(ctx context.Context, w *follower, t *conditionTracker, round *latencyRound, generations []int64) error {
	want, status := settled(), settledStatus
	if round.what == brokenDown {
		want, status = broken(), brokenStatus
	}
	begin, err := b.mark()
	if err != nil {
		return err
	}
	profiled := b.profile(ctx, fmt.Sprintf("latency-%s-%d", want.healthy, round.together), 5*time.Second)
	sets := make([]int, b.sets)
	for i := range sets {
		sets[i] = i
	}
	for some := range slices.Chunk(sets, round.together) {
		if err := b.changeTogether(ctx, w, t, round, want, status, some, generations); err != nil {
			return fmt.Errorf("%s, %d at a time: %w", round.what, round.together, err)
		}
		if err := local.Pause(ctx, repairPause); err != nil {
			return err
		}
	}
	profiled()
	b.Step("%s, %d at a time: median / p95 / max %s", round.what, round.together, tails(round.took))
	b.Detail("from before the request that changes the status: %s", tails(round.withWrite))
	return b.reportRequests(begin)
}

// changeTogether writes the status of some Deployments and waits until their sets have the wanted conditions.
func (b *bench) changeTogether(
	ctx context.Context, w *follower, t *conditionTracker, round *latencyRound, want verdicts, status func(int64) map[string]any, sets []int,
	generations []int64,
) error {
	names := make([]string, 0, len(sets))
	for _, set := range sets {
		names = append(names, setName(set))
	}
	w.drain(t.see)
	t.expect(want, names...)
	if len(t.missing) != len(sets) {
		return fmt.Errorf("the sets say %s before their Deployments have changed", want)
	}
	type answer struct {
		sent, answered time.Time
		version        string
	}
	answers := make([]answer, len(sets))
	_, err := both(ctx, func(ctx context.Context) error {
		return harness.Parallel(ctx, len(sets), workers, func(ctx context.Context, i int) (err error) {
			answers[i].sent = time.Now()
			answers[i].version, err = b.writeStatus(ctx, sets[i], status(generations[sets[i]]))
			answers[i].answered = time.Now()
			return err
		})
	}, func(ctx context.Context) (time.Time, error) {
		return time.Time{}, awaitConditions(ctx, w, t, "the conditions to follow their Deployments")
	})
	if err != nil {
		return err
	}
	for i, name := range names {
		round.took = append(round.took, max(0, t.reached[name].Sub(t.begin(name, answers[i].version, answers[i].answered))))
		round.withWrite = append(round.withWrite, t.reached[name].Sub(answers[i].sent))
	}
	return nil
}

// writeStatus replaces a Deployment's status as its controller would, and returns the new version.
func (b *bench) writeStatus(ctx context.Context, set int, status map[string]any) (version string, err error) {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return "", fmt.Errorf("render status: %w", err)
	}
	written, err := b.target.objects.Resource(deployments).Namespace(namespaceOf(oursRun, set)).Patch(ctx, setName(set),
		types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kube-controller-manager"}, "status")
	if err != nil {
		return "", fmt.Errorf("write status of Deployment %s: %w", setName(set), err)
	}
	return written.GetResourceVersion(), nil
}

// settledStatus returns the status that the Deployment controller writes when the last Pod of a rollout is ready.
func settledStatus(generation int64) map[string]any {
	return map[string]any{
		"observedGeneration": generation, "replicas": int64(1), "updatedReplicas": int64(1), "readyReplicas": int64(1),
		"availableReplicas": int64(1), "unavailableReplicas": nil,
		"conditions": []any{
			statusCondition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
			statusCondition("Progressing", "True", "NewReplicaSetAvailable", "The new ReplicaSet has successfully progressed."),
		},
	}
}

// brokenStatus returns the status when that Pod has failed and another one is being created.
func brokenStatus(generation int64) map[string]any {
	return map[string]any{
		"observedGeneration": generation, "replicas": int64(1), "updatedReplicas": int64(1), "readyReplicas": nil, "availableReplicas": nil,
		"unavailableReplicas": int64(1),
		"conditions": []any{
			statusCondition("Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
			statusCondition("Progressing", "True", "ReplicaSetUpdated", "The ReplicaSet is progressing."),
		},
	}
}

func statusCondition(kind, status, reason, message string) map[string]any {
	return map[string]any{"type": kind, "status": status, "reason": reason, "message": message}
}
