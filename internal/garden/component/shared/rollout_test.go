package shared_test

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
	"github.com/espalier-dev/espalier/internal/garden/component/shared"
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
			NewWithT(t).Expect(shared.RolloutProblem(tc.deployment, tc.pods)).To(Equal(tc.want))
		})
	}
}

func TestNewestPod(t *testing.T) {
	g := NewWithT(t)
	at := func(name string, second int64) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(second, 0))}}
	}
	g.Expect(shared.NewestPod(nil)).To(BeNil())
	g.Expect(shared.NewestPod([]corev1.Pod{at("a", 1), at("b", 3), at("c", 2)}).Name).To(Equal("b"))
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
			g.Expect(shared.Ready(set) == nil).To(Equal(tc.ready))
			g.Expect(shared.RolledOut(set) == nil).To(Equal(tc.rolledOut))
		})
	}
}
