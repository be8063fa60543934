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

// stages returns the components that the reconciliation waits for. The components of a stage start at the same time. Each stage begins when
// the one before has started.
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

// span is the time of a task. The end is zero while the task runs.
type span struct {
	name       string
	begin, end time.Time
}

// start contains the times of the Pods of one rollout: when the first one was created, when the last one was available, and how long the
// slowest one took from its creation to its availability.
type start struct {
	created, available time.Time
	took               time.Duration
}

func (s start) with(created, available time.Time) start {
	if s.created.IsZero() || created.Before(s.created) {
		s.created = created
	}
	if available.After(s.available) {
		s.available = available
	}
	s.took = max(s.took, available.Sub(created))
	return s
}

// timeline records the times of a reconciliation in whole seconds, because the API has no fractions.
type timeline struct {
	applied time.Time
	spans   []span
	// started contains the Pods that were ready. starts contains the times by component and rollout.
	started sets.Set[types.UID]
	starts  map[string]map[string]start
}

func newTimeline(applied time.Time) *timeline {
	return &timeline{applied: applied.Truncate(time.Second), started: sets.New[types.UID](), starts: map[string]map[string]start{}}
}

// addTasks adds the tasks in the status of the Garden. It ignores tasks of earlier and later reconciliations.
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

// revision is the annotation with which the Deployment controller numbers the ReplicaSets of a Deployment.
const revision = "deployment.kubernetes.io/revision"

// addPods adds Pods that are ready for the first time. A Pod of a later rollout of a Deployment counts as available only after
// minReadySeconds.
func (t *timeline) addPods(pods []corev1.Pod, replicaSets []appsv1.ReplicaSet) {
	settling := map[types.UID]time.Duration{}
	for _, each := range replicaSets {
		if each.Annotations[revision] != "1" {
			settling[each.UID] = time.Duration(each.Spec.MinReadySeconds) * time.Second
		}
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
				t.starts[component] = map[string]start{}
			}
			available := condition.LastTransitionTime.Add(settling[owner.UID])
			t.starts[component][owner.Name] = t.starts[component][owner.Name].with(pod.CreationTimestamp.Time, available)
			t.started.Insert(pod.UID)
		}
	}
}

// table returns the times of tasks and components, and names each long wait. It also compares the duration of the reconciliation with the
// sum of the starts of the stages, which no operator could beat.
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
	for _, each := range t.startedStages() {
		floor += each.took
		fmt.Fprintf(&text, "%8.0f  %s\n", each.took.Seconds(), strings.Join(each.components, ", "))
		if each.components[0] == apiServer {
			text.WriteString(compare("API server of the virtual cluster ready", ready, floor))
		}
	}
	text.WriteString(compare("Garden reconciled", reconciled, floor))
	return text.String() + t.waits(reconciled)
}

// stage contains the started components of a stage.
type stage struct {
	components []string
	// slowest is the component whose start took longest, and took is this time. The times of several rollouts of a component are added.
	slowest string
	took    time.Duration
	// created is when the first Pod was created; first is its component. available is when the last Pod was available; last is its
	// component.
	first, last        string
	created, available time.Time
}

func (t *timeline) startedStages() []stage {
	var all []stage
	for _, components := range stages() {
		var s stage
		for _, component := range components {
			if len(t.starts[component]) > 0 {
				s.add(component, t.starts[component])
			}
		}
		if len(s.components) > 0 {
			all = append(all, s)
		}
	}
	return all
}

func (s *stage) add(component string, rollouts map[string]start) {
	s.components = append(s.components, component)
	var took time.Duration
	for _, each := range rollouts {
		took += each.took
		if s.first == "" || each.created.Before(s.created) {
			s.first, s.created = component, each.created
		}
		if each.available.After(s.available) {
			s.last, s.available = component, each.available
		}
	}
	if s.slowest == "" || took > s.took {
		s.slowest, s.took = component, took
	}
}

// A wait gets a line if it is longer than longWait.
const longWait = 5 * time.Second

// waits returns a line for the slowest start of each stage, and for the time between two stages, if it is longer than longWait; "" if there
// is none. The argument reconciled is when the reconciliation ended, 0 if it has not ended.
func (t *timeline) waits(reconciled time.Duration) string {
	var text strings.Builder
	add := func(took time.Duration, what string) {
		if took > longWait {
			fmt.Fprintf(&text, "%8.0f  %s\n", took.Seconds(), what)
		}
	}
	since, until := t.applied, "the Garden is created"
	for _, each := range t.startedStages() {
		add(each.created.Sub(since), until+", and there is no Pod of "+each.first+" yet")
		add(each.took, each.slowest+" starts")
		since, until = each.available, each.last+" is ready"
	}
	if reconciled > 0 {
		add(t.applied.Add(reconciled).Sub(since), until+", and the Garden is not reconciled yet")
	}
	if text.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("\n%8s  what takes more than %.0f s\n", "wait, s", longWait.Seconds()) + text.String()
}

// compare returns a line that compares a time with the sum of the starts; "" if one of them is unknown.
func compare(what string, after, floor time.Duration) string {
	if after <= 0 || floor <= 0 {
		return ""
	}
	return fmt.Sprintf("%8.0f  %s after %.0f s: %.2f times the sum of the starts\n", floor.Seconds(), what, after.Seconds(),
		after.Seconds()/floor.Seconds())
}
