package judgement_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
)

func rolledOut(changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Generation: 2},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
			},
		},
	}
	for _, each := range changes {
		each(d)
	}
	return d
}

func TestRollouts(t *testing.T) {
	pods := func(phases ...corev1.PodPhase) []corev1.Pod {
		all := make([]corev1.Pod, 0, len(phases))
		for _, each := range phases {
			all = append(all, corev1.Pod{Status: corev1.PodStatus{Phase: each}})
		}
		return all
	}
	both := pods(corev1.PodRunning, corev1.PodRunning)
	const oldPods = "there are still non-terminated old pods"
	for sentence, tc := range map[string]struct {
		deployment *appsv1.Deployment
		pods       []corev1.Pod
		want       string
	}{
		"complete":      {deployment: rolledOut(), pods: both},
		"a failed Pod":  {deployment: rolledOut(), pods: append(pods(corev1.PodFailed), both...)},
		"an old Pod":    {deployment: rolledOut(), pods: append(pods(corev1.PodRunning), both...), want: oldPods},
		"a missing Pod": {deployment: rolledOut(), pods: both[:1], want: oldPods},
		"not observed": {
			deployment: rolledOut(func(d *appsv1.Deployment) { d.Generation = 3 }), pods: both, want: "observed generation outdated (2/3)",
		},
		"not available": {
			deployment: rolledOut(func(d *appsv1.Deployment) { d.Status.Conditions[0].Status = corev1.ConditionFalse }), pods: both,
			want: `condition "Available" has invalid status False (expected True) due to : `,
		},
		"progressing": {
			deployment: rolledOut(func(d *appsv1.Deployment) {
				d.Status.Conditions[1].Reason, d.Status.Conditions[1].Message = "ReplicaSetUpdated", "1 of 2"
			}), pods: both, want: "1 of 2",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(judgement.RolloutProblem(tc.deployment, tc.pods, false)).To(Equal(tc.want))
		})
	}
}

// settling returns a Deployment of two replicas that are ready, and not yet available, because spec.minReadySeconds has not passed.
func settling(changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	return rolledOut(append([]func(*appsv1.Deployment){func(d *appsv1.Deployment) {
		d.Annotations, d.Spec.MinReadySeconds = map[string]string{"deployment.kubernetes.io/revision": "1"}, 30
		d.Status.AvailableReplicas, d.Status.UnavailableReplicas = 0, 2
		d.Status.Conditions[0].Status, d.Status.Conditions[0].Message = corev1.ConditionFalse, "too few"
		d.Status.Conditions[1].Reason, d.Status.Conditions[1].Message = "ReplicaSetUpdated", "0 of 2"
	}}, changes...)...)
}

func TestFirstRolloutIsCompleteWhenItsPodsAreReady(t *testing.T) {
	const unavailable = `condition "Available" has invalid status False (expected True) due to : too few`
	pods := make([]corev1.Pod, 2)
	for sentence, tc := range map[string]struct {
		deployment *appsv1.Deployment
		pods       []corev1.Pod
		want       string
	}{
		"all are ready":    {deployment: settling(), pods: pods},
		"one is not ready": {deployment: settling(func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 1 }), pods: pods, want: unavailable},
		"one is not updated": {
			deployment: settling(func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 1 }), pods: pods, want: unavailable,
		},
		"one is too many": {deployment: settling(func(d *appsv1.Deployment) { d.Status.Replicas = 3 }), pods: pods, want: unavailable},
		"one is missing": {
			deployment: settling(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](3) }), pods: pods, want: unavailable,
		},
		"a later rollout": {
			deployment: settling(func(d *appsv1.Deployment) { d.Annotations["deployment.kubernetes.io/revision"] = "2" }), pods: pods,
			want: unavailable,
		},
		"no ReplicaSet yet": {deployment: settling(func(d *appsv1.Deployment) { d.Annotations = nil }), pods: pods, want: unavailable},
		"a change that is not observed": {
			deployment: settling(func(d *appsv1.Deployment) { d.Generation = 3 }), pods: pods, want: "observed generation outdated (2/3)",
		},
		"a Pod of another Deployment": {
			deployment: settling(), pods: make([]corev1.Pod, 3), want: "there are still non-terminated old pods",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(judgement.RolloutProblem(tc.deployment, tc.pods, false)).To(Equal(tc.want))
		})
	}
}

func TestNewestPod(t *testing.T) {
	g := NewWithT(t)
	at := func(name string, second int64) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(second, 0))}}
	}
	g.Expect(judgement.NewestPod(nil)).To(BeNil())
	g.Expect(judgement.NewestPod([]corev1.Pod{at("a", 1), at("b", 3), at("c", 2)}).Name).To(Equal("b"))
}

func TestReadinessOfManagedResources(t *testing.T) {
	const (
		isTrue  = corev1beta1.ConditionTrue
		isFalse = corev1beta1.ConditionFalse
	)
	for sentence, tc := range map[string]struct {
		applied, healthy, progressing corev1beta1.ConditionStatus
		ready, rolledOut              bool
	}{
		"rolled out":   {applied: isTrue, healthy: isTrue, progressing: isFalse, ready: true, rolledOut: true},
		"rolling out":  {applied: isTrue, healthy: isTrue, progressing: isTrue, ready: true},
		"unhealthy":    {applied: isTrue, healthy: isFalse, progressing: isFalse},
		"not applied":  {applied: isFalse, healthy: isTrue, progressing: isFalse},
		"not reported": {},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			set := &resourcesv1alpha1.ManagedResource{}
			for of, status := range map[corev1beta1.ConditionType]corev1beta1.ConditionStatus{
				resourcesv1alpha1.ResourcesApplied: tc.applied, resourcesv1alpha1.ResourcesHealthy: tc.healthy,
				resourcesv1alpha1.ResourcesProgressing: tc.progressing,
			} {
				if status != "" {
					set.Status.Conditions = append(set.Status.Conditions, corev1beta1.Condition{Type: of, Status: status})
				}
			}
			g.Expect(judgement.Ready(set) == nil).To(Equal(tc.ready))
			g.Expect(judgement.RolledOut(set) == nil).To(Equal(tc.rolledOut))
		})
	}
}

// A Pod on a node that does not answer may still write with the old key.
func TestRotationsCountEveryPodThatMayStillRun(t *testing.T) {
	const remedy = "; if such a node does not come back, make sure that it is down, and then delete the Node, or delete its Pods with --force"
	const prefix = "there are still non-terminated old pods, which may use credentials from before the rotation: "
	at := func(hours int) metav1.Time {
		return metav1.NewTime(time.Date(2026, time.January, 1, hours, 0, 0, 0, time.UTC))
	}
	pod := func(name, hash string, created int, status corev1.PodStatus) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "garden", Name: name, CreationTimestamp: at(created), Labels: map[string]string{"pod-template-hash": hash},
			},
			Spec: corev1.PodSpec{NodeName: "n"}, Status: status,
		}
	}
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	disrupted := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
	}}
	terminating := pod("old", "2", 1, running)
	terminating.DeletionTimestamp = ptr.To(at(5))
	unscheduled := pod("old", "1", 1, corev1.PodStatus{Phase: corev1.PodPending})
	unscheduled.Spec.NodeName = ""
	evicted := corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}
	first, second := pod("first", "2", 2, running), pod("second", "2", 3, running)
	const old = prefix + "garden/old on node n" + remedy
	for sentence, tc := range map[string]struct {
		pods []corev1.Pod
		want string
	}{
		"new Pods only":                 {pods: []corev1.Pod{first, second}},
		"a new Pod that is disrupted":   {pods: []corev1.Pod{first, pod("second", "2", 3, disrupted)}},
		"an old Pod that is disrupted":  {pods: []corev1.Pod{first, second, pod("old", "1", 1, disrupted)}, want: old},
		"an old Pod of a lost node":     {pods: []corev1.Pod{first, second, pod("old", "1", 1, corev1.PodStatus{Reason: "NodeLost"})}, want: old},
		"an old Pod instead of a new":   {pods: []corev1.Pod{first, pod("old", "1", 1, disrupted)}, want: old},
		"a disrupted Pod too many":      {pods: []corev1.Pod{first, second, pod("old", "2", 1, disrupted)}, want: old},
		"a terminating Pod too many":    {pods: []corev1.Pod{first, second, terminating}, want: old},
		"an evicted Pod":                {pods: []corev1.Pod{first, second, pod("old", "1", 1, evicted)}},
		"a Pod that has succeeded":      {pods: []corev1.Pod{first, second, pod("old", "1", 1, corev1.PodStatus{Phase: corev1.PodSucceeded})}},
		"an old Pod that has no node":   {pods: []corev1.Pod{first, second, unscheduled}, want: prefix + "garden/old on node none" + remedy},
		"a new Pod that is still to be": {pods: []corev1.Pod{first}, want: "there are still non-terminated old pods"},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(judgement.RolloutProblem(rolledOut(), tc.pods, true)).To(Equal(tc.want))
		})
	}
}

func TestEveryPodWithoutADeploymentIsOld(t *testing.T) {
	g := NewWithT(t)
	left := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "left"}, Spec: corev1.PodSpec{NodeName: "n"}}
	g.Expect(judgement.FormerPods(nil, nil)).To(BeEmpty())
	g.Expect(judgement.FormerPods(nil, []corev1.Pod{left})).To(ContainSubstring("garden/left on node n"))
}

// A ReplicaSet that cannot create Pods, or that does not exist yet, leaves Pods of one ReplicaSet only: the old ones.
func TestPodsAreFormerUntilTheDeploymentIsRolledOut(t *testing.T) {
	pods := make([]corev1.Pod, 2)
	for sentence, tc := range map[string]struct {
		deployment *appsv1.Deployment
		pods       []corev1.Pod
		want       string
	}{
		"rolled out":                  {deployment: rolledOut(), pods: pods},
		"new Pods that are not ready": {deployment: settling(func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 0 }), pods: pods},
		"new Pods that are missing": {
			deployment: rolledOut(func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{ObservedGeneration: 2} }),
		},
		"an old Pod": {deployment: rolledOut(), pods: make([]corev1.Pod, 3), want: "there are still non-terminated old pods"},
		"no ReplicaSet yet": {
			deployment: rolledOut(func(d *appsv1.Deployment) { d.Generation = 3 }), pods: pods, want: "has not observed its last change (2/3)",
		},
		"a ReplicaSet that cannot create Pods": {
			deployment: rolledOut(func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 0 }), pods: pods,
			want: "only 0 of 2 Pods have its present specification",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			problem := judgement.FormerPods(tc.deployment, tc.pods)
			g.Expect(problem).To(ContainSubstring(tc.want))
			if tc.want == "" {
				g.Expect(problem).To(BeEmpty())
			}
		})
	}
}

func TestFormerClientsMountAnotherKubeconfig(t *testing.T) {
	pod := func(name, secret string, phase corev1.PodPhase) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "kubeconfig", VolumeSource: corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: secret},
				}}}},
			}}}},
			Status: corev1.PodStatus{Phase: phase},
		}
	}
	pods := []corev1.Pod{
		pod("old", "generic-token-kubeconfig-1", corev1.PodRunning),
		pod("older", "generic-token-kubeconfig-0", corev1.PodPending),
		pod("finished", "generic-token-kubeconfig-1", corev1.PodSucceeded),
		pod("new", "generic-token-kubeconfig-2", corev1.PodRunning),
		pod("other", "shoot-access-a", corev1.PodRunning),
		{},
	}
	NewWithT(t).Expect(judgement.FormerClients(pods, "generic-token-kubeconfig-2")).To(HaveExactElements(
		HaveField("Name", "old"), HaveField("Name", "older"),
	))
}

func TestOwnerOfAPodIsItsDeployment(t *testing.T) {
	for sentence, tc := range map[string]struct{ kind, owner, hash, wantKind, wantName string }{
		"a Deployment":                   {"ReplicaSet", "web-1", "1", "Deployment", "web"},
		"a ReplicaSet of its own":        {"ReplicaSet", "web-1", "", "ReplicaSet", "web-1"},
		"another controller":             {"StatefulSet", "etcd", "", "StatefulSet", "etcd"},
		"a Pod that has no controller":   {},
		"a controller with the same end": {"StatefulSet", "etcd-1", "1", "StatefulSet", "etcd-1"},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pod-template-hash": tc.hash}}}
			if tc.owner != "" {
				pod.OwnerReferences = []metav1.OwnerReference{{Kind: tc.kind, Name: tc.owner, Controller: ptr.To(true)}}
			}
			kind, name := judgement.OwnerOf(pod)
			g.Expect([]string{kind, name}).To(Equal([]string{tc.wantKind, tc.wantName}))
		})
	}
}
