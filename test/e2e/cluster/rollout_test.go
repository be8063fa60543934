package cluster

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestUnfinished(t *testing.T) {
	for name, tc := range map[string]struct {
		replicas *int32
		status   appsv1.DeploymentStatus
		want     string
	}{
		"all are there": {replicas: ptr.To[int32](2), status: appsv1.DeploymentStatus{
			ObservedGeneration: 3, Replicas: 2,
			UpdatedReplicas: 2, AvailableReplicas: 2,
		}},
		"one, the default": {status: appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}},
		"none are wanted":  {replicas: ptr.To[int32](0), status: appsv1.DeploymentStatus{ObservedGeneration: 3}},
		"the status is older": {
			replicas: ptr.To[int32](0), status: appsv1.DeploymentStatus{ObservedGeneration: 2},
			want: "its last change was not seen yet",
		},
		"an old one is left": {
			replicas: ptr.To[int32](2), status: appsv1.DeploymentStatus{
				ObservedGeneration: 3, Replicas: 3, UpdatedReplicas: 2,
				AvailableReplicas: 2,
			},
			want: "of 2 replicas 2 are up to date, 2 available, 3 there",
		},
		"one is not available": {
			replicas: ptr.To[int32](2), status: appsv1.DeploymentStatus{
				ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2,
				AvailableReplicas: 1,
			},
			want: "of 2 replicas 2 are up to date, 1 available, 2 there",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := Unfinished(&appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Generation: 3}, Spec: appsv1.DeploymentSpec{Replicas: tc.replicas},
				Status: tc.status,
			})
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(tc.want))
		})
	}
}

func TestDescribe(t *testing.T) {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: corev1.PodStatus{
		Phase:      corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Message: "containers with unready status"}},
		ContainerStatuses: []corev1.ContainerStatus{{
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 7, Message: "as told"}},
		}},
	}}
	NewWithT(t).Expect(describe(pod)).To(Equal("Pod p is Running, containers with unready status, CrashLoopBackOff: back-off 10s, ended " +
		"with 7 as told"))
}

func TestSettled(t *testing.T) {
	g := NewWithT(t)
	starts := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	ready, ends := *starts.DeepCopy(), *starts.DeepCopy()
	ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	ends.DeletionTimestamp = &metav1.Time{}
	g.Expect(settled([]corev1.Pod{ready, ready}, 2)).To(Succeed())
	g.Expect(settled([]corev1.Pod{ready, ready, ends}, 2)).To(MatchError("pod x has not ended yet"))
	g.Expect(settled([]corev1.Pod{ready, starts}, 2)).To(MatchError("of 2 replicas 1 are ready"))
	g.Expect(settled(nil, 0)).To(Succeed())
}
