package main

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

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

const (
	apiServer = "virtual-garden-kube-apiserver"
	// apiServerReady is the task after which the API server of the virtual cluster is ready.
	apiServerReady = "Waiting until Kubernetes API server rolled out"
)

// stages are the components that the reconciliation waits for. Those of one stage start at the same time, and each stage waits for the one
// before.
func stages() [][]string {
	return [][]string{
		{
			"gardener-resource-manager", "gardener-resource-manager-networkpolicies", "gardener-resource-manager-tokens",
			"gardener-resource-manager-webhooks",
		},
		{"etcd-druid", "istiod", "istio-ingressgateway"},
		{"virtual-garden-etcd-main", "virtual-garden-etcd-events"},
		{apiServer},
		{
			"virtual-garden-kube-controller-manager", "virtual-garden-gardener-resource-manager", "virtual-garden-gardener-resource-manager-tokens",
			"virtual-garden-gardener-resource-manager-webhooks",
		},
		{"gardener-apiserver"},
		{"gardener-admission-controller", "gardener-controller-manager", "gardener-scheduler"},
	}
}

// span is when a task began and ended. The end is zero while the task runs.
type span struct {
	name       string
	begin, end time.Time
}

// timeline is what was observed of a reconciliation, in seconds without fractions, because the API has no others.
type timeline struct {
	applied time.Time
	spans   []span
	// started are the Pods that are known, and starts how long the slowest Pod of each component and rollout took from its creation until
	// it was available.
	started sets.Set[types.UID]
	starts  map[string]map[string]time.Duration
}

func newTimeline(applied time.Time) *timeline {
	return &timeline{applied: applied.Truncate(time.Second), started: sets.New[types.UID](), starts: map[string]map[string]time.Duration{}}
}

// addTasks adds what the status of the Garden says. It ignores tasks of earlier and later reconciliations.
func (t *timeline) addTasks(tasks []operatorv1alpha1.Task) {
	for _, task := range tasks {
		if task.State == operatorv1alpha1.TaskPending || task.State == operatorv1alpha1.TaskSkipped || task.Since.Time.Before(t.applied) {
			continue
		}
		at := slices.IndexFunc(t.spans, func(s span) bool { return s.name == task.Name })
		if at < 0 {
			at = len(t.spans)
			t.spans = append(t.spans, span{name: task.Name, begin: task.Since.Time})
		}
		if task.State == operatorv1alpha1.TaskSucceeded && t.spans[at].end.IsZero() {
			t.spans[at].end = task.Since.Time
		}
	}
}

// addPods adds Pods that are ready for the first time, with the time for which their ReplicaSet requires that.
func (t *timeline) addPods(pods []corev1.Pod, replicaSets []appsv1.ReplicaSet) {
	settling := map[types.UID]time.Duration{}
	for _, each := range replicaSets {
		settling[each.UID] = time.Duration(each.Spec.MinReadySeconds) * time.Second
	}
	for _, pod := range pods {
		owner := metav1.GetControllerOf(&pod)
		if t.started.Has(pod.UID) || owner == nil || pod.CreationTimestamp.Time.Before(t.applied) {
			continue
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type != corev1.PodReady || condition.Status != corev1.ConditionTrue {
				continue
			}
			component := strings.TrimSuffix(owner.Name, "-"+pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey])
			if t.starts[component] == nil {
				t.starts[component] = map[string]time.Duration{}
			}
			took := condition.LastTransitionTime.Sub(pod.CreationTimestamp.Time) + settling[owner.UID]
			t.starts[component][owner.Name] = max(t.starts[component][owner.Name], took)
			t.started.Insert(pod.UID)
		}
	}
}

// table returns the times of tasks and of components, and compares the sum of the latter, below which no operator comes, with what the
// reconciliation took.
func (t *timeline) table() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%8s %8s  %s\n", "began, s", "took, s", "task")
	var ready, reconciled time.Duration
	for _, each := range t.spans {
		took, end := "", each.end.Sub(t.applied)
		if !each.end.IsZero() {
			took = fmt.Sprintf("%.0f", each.end.Sub(each.begin).Seconds())
			reconciled = max(reconciled, end)
		}
		if each.name == apiServerReady {
			ready = end
		}
		fmt.Fprintf(&text, "%8.0f %8s  %s\n", each.begin.Sub(t.applied).Seconds(), took, each.name)
	}
	fmt.Fprintf(&text, "\n%8s  %s\n", "start, s", "components that start at the same time, after those above")
	var floor time.Duration
	for _, stage := range stages() {
		slowest, started := t.slowest(stage)
		if len(started) == 0 {
			continue
		}
		floor += slowest
		fmt.Fprintf(&text, "%8.0f  %s\n", slowest.Seconds(), strings.Join(started, ", "))
		if stage[0] == apiServer {
			text.WriteString(compare("API server of the virtual cluster ready", ready, floor))
		}
	}
	text.WriteString(compare("Garden reconciled", reconciled, floor))
	return text.String()
}

// slowest returns the slowest start of a stage, and the components of it that were started. The rollouts of a component come one after the
// other.
func (t *timeline) slowest(stage []string) (slowest time.Duration, started []string) {
	for _, component := range stage {
		var took time.Duration
		for _, each := range t.starts[component] {
			took += each
		}
		if took > 0 {
			started = append(started, component)
			slowest = max(slowest, took)
		}
	}
	return slowest, started
}

// compare returns a line, "" if there is nothing to compare.
func compare(what string, after, floor time.Duration) string {
	if after <= 0 || floor <= 0 {
		return ""
	}
	return fmt.Sprintf("%8.0f  %s after %.0f s: %.2f times the sum of the starts\n", floor.Seconds(), what, after.Seconds(),
		after.Seconds()/floor.Seconds())
}
