package managedresource

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
)

// conditionLimit is how long a condition may take before the run fails: even a slow controller is faster, so a controller that exceeds it
// writes no conditions.
const conditionLimit = 20 * time.Second

// latency measures how long conditions take to follow a Deployment's status. Each Deployment is in a separate set. There is no Deployment
// controller: the benchmark writes the status, so that exactly one change is timed.
type latency struct {
	deployments int
	// together is how many Deployments change at the same time in the second half of the measurement. In the first half, they change one after
	// the other.
	together int
}

// latencyRound is one direction of a round: all Deployments become healthy, or all become unhealthy.
type latencyRound struct {
	what string
	// status is the new status of the Deployments, and want are the conditions that must follow.
	status   string
	want     verdicts
	together int
	// took are the times from the change of a Deployment in the API server until its set has the wanted conditions.
	took []time.Duration
}

func (l *latency) measure(r *harness.Run) {
	rounds := l.plan()
	defer func() { r.Add(l.rows(rounds)) }()
	w := workload{size: size{sets: l.deployments, objects: 1}, calm: 100 * time.Millisecond}
	open(r, setup{}, w).measureLatency(rounds)
}

func (l latency) plan() (rounds []latencyRound) {
	for _, together := range []int{1, l.together} {
		rounds = append(rounds,
			latencyRound{what: "Deployment rolled out → Healthy, not Progressing", status: settledStatus, want: settled(), together: together},
			latencyRound{what: "Deployment broken → not Healthy, Progressing", status: brokenStatus, want: broken(), together: together})
	}
	return rounds
}

func (l latency) rows(rounds []latencyRound) []harness.Row {
	const middle, most = 50 * time.Millisecond, 500 * time.Millisecond
	rows := make([]harness.Row, 0, len(rounds))
	for _, round := range rounds {
		rows = append(rows, harness.Row{
			Measure: round.what + ", median / p95 / max", Workload: fmt.Sprintf("%d, %d at a time", l.deployments, round.together),
			Target: "≤ " + harness.Milliseconds(middle) + " / – / " + harness.Milliseconds(most), Figure: tails(round.took),
			Verdict: harness.Judge(len(round.took) == l.deployments && harness.Median(round.took) <= middle && harness.Longest(round.took) <= most),
		}.If(len(round.took) > 0))
	}
	return rows
}

// tails returns median, 95th percentile and maximum.
func tails(values []time.Duration) string {
	text := func(percent int) string { return harness.Milliseconds(harness.Percentile(values, percent)) }
	return text(50) + " / " + text(95) + " / " + text(100)
}

// measureLatency measures the rounds and stores the times in them, until a step fails.
func (b *bench) measureLatency(rounds []latencyRound) {
	b.startController()
	names := make([]string, b.sets)
	b.Parallel(b.sets, workers, func(set int) {
		names[set] = setName(set)
		namespace := namespaceOf(oursRun, set)
		b.target.CreateNamespace(namespace)
		// Without a controller manager, the ServiceAccount for Pods is missing.
		b.target.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}})
	})
	w := b.Follow(b.allSets(true), b.objectsOf(oursRun, deploymentKind, false))
	defer w.Stop()
	t := newConditionTracker()
	t.expect(broken(), names...)
	b.Step("creating %d sets with a Deployment each", len(names))
	b.Parallel(b.sets, workers, func(set int) { b.createSet(set, rolledDeployment(set, 1, "")) })
	b.awaitConditions(w, t, "the sets to see that their Deployments are not rolled out")
	all := b.createPods()
	for i := range rounds {
		b.settle()
		b.latencyRound(w, t, &rounds[i], all)
	}
}

// rolledDeployment returns the Deployment of a set, which has the namespace and the name of the set. Each version has another Pod template.
func rolledDeployment(set, replicas int, version string) *unstructured.Unstructured {
	spec, _, _ := unstructured.NestedMap(template(0, setName(set), "").Object, "spec")
	spec["replicas"], spec["revisionHistoryLimit"] = int64(replicas), int64(1)
	_ = unstructured.SetNestedField(spec, version, "template", "metadata", "annotations", "bench.espalier.dev/version")
	o := local.NewObject("apps/v1", "Deployment", namespaceOf(oursRun, set), setName(set), map[string]any{"spec": spec})
	o.SetLabels(map[string]string{runLabel: oursRun})
	return o
}

// createPods creates the ReplicaSet and the Pod of a complete rollout for each Deployment, and returns the Deployments.
func (b *bench) createPods() []*appsv1.Deployment {
	all := make([]*appsv1.Deployment, b.sets)
	b.Parallel(b.sets, workers, func(set int) {
		deployment := &appsv1.Deployment{}
		b.Check(b.target.Client.Get(b.Ctx, client.ObjectKey{Namespace: namespaceOf(oursRun, set), Name: setName(set)}, deployment))
		all[set] = deployment
		replicaSet := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: deployment.Namespace, Name: deployment.Name + "-1", Labels: deployment.Spec.Template.Labels,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, deploymentKind)},
			},
			Spec: appsv1.ReplicaSetSpec{
				Replicas: deployment.Spec.Replicas, Selector: deployment.Spec.Selector, Template: deployment.Spec.Template,
			},
		}
		b.target.Create(replicaSet)
		b.target.Create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: deployment.Namespace, Name: replicaSet.Name + "-a", Labels: deployment.Spec.Template.Labels,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(replicaSet, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
			},
			Spec: deployment.Spec.Template.Spec,
		})
	})
	return all
}

// awaitConditions waits until every set that the tracker expects has the wanted conditions.
func (b *bench) awaitConditions(w *harness.Follower, t *conditionTracker, what string) {
	defer func() {
		if !t.done() {
			b.Within("of the sets that do not say %s, %s: does this controller keep the conditions at all?", t.want, t.explain())
		}
	}()
	if !t.done() {
		w.Until(conditionLimit, what, t.see)
	}
}

// latencyRound changes all Deployments, the given number at a time.
func (b *bench) latencyRound(w *harness.Follower, t *conditionTracker, round *latencyRound, all []*appsv1.Deployment) {
	defer b.Within("%s, %d at a time", round.what, round.together)
	for some := range slices.Chunk(all, round.together) {
		b.changeTogether(w, t, round, some)
		b.Pause(repairPause)
	}
	b.Step("%s, %d at a time: median / p95 / max %s", round.what, round.together, tails(round.took))
}

// changeTogether writes the status of some Deployments, and waits until their sets have the wanted conditions.
func (b *bench) changeTogether(w *harness.Follower, t *conditionTracker, round *latencyRound, some []*appsv1.Deployment) {
	names := make([]string, 0, len(some))
	for _, each := range some {
		names = append(names, each.Name)
	}
	w.Drain(t.see)
	t.expect(round.want, names...)
	if len(t.missing) != len(some) {
		b.Check(fmt.Errorf("the sets say %s before their Deployments have changed", round.want))
	}
	answered := make([]time.Time, len(some))
	b.Together(
		func() {
			b.Parallel(len(some), workers, func(i int) {
				b.writeStatus(some[i], round.status)
				answered[i] = time.Now()
			})
		},
		func() { b.awaitConditions(w, t, "the conditions to follow their Deployments") },
	)
	for i, each := range some {
		round.took = append(round.took, max(0, t.reached[each.Name].Sub(t.begin(each.ResourceVersion, answered[i]))))
	}
}

// writeStatus replaces a Deployment's status as its controller would.
func (b *bench) writeStatus(d *appsv1.Deployment, status string) {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, status, d.Generation))
	b.Check(b.target.Client.Status().Patch(b.Ctx, d, patch, client.FieldOwner("kube-controller-manager")))
}

// settledStatus is a patch with the status that the Deployment controller writes when the last Pod of a rollout is ready. brokenStatus is a
// patch with its status when that Pod has failed and a new Pod is being created. Both get the generation of the Deployment.
const (
	settledStatus = `{"status": {
		"observedGeneration": %d, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1, "unavailableReplicas": null,
		"conditions": [
			{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "Deployment has minimum availability."},
			{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": "The ReplicaSet has progressed."}
		]
	}}`
	brokenStatus = `{"status": {
		"observedGeneration": %d, "replicas": 1, "updatedReplicas": 1, "readyReplicas": null, "availableReplicas": null, "unavailableReplicas": 1,
		"conditions": [
			{"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": "It lacks minimum availability."},
			{"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated", "message": "The ReplicaSet is progressing."}
		]
	}}`
)
