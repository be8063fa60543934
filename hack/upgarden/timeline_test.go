package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

var applied = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func after(seconds int) metav1.Time {
	return metav1.NewTime(applied.Add(time.Duration(seconds) * time.Second))
}

// pod returns a Pod of the ReplicaSet with this name and hash.
func pod(set, hash string, created, ready int) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		UID: types.UID(set + hash), CreationTimestamp: after(created), Labels: map[string]string{"pod-template-hash": hash},
		OwnerReferences: []metav1.OwnerReference{{Name: set + "-" + hash, UID: types.UID(set), Controller: ptr.To(true)}},
	}}
	if ready > 0 {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: after(ready)}}
	}
	return p
}

func TestTableComparesTheReconciliationWithTheStarts(t *testing.T) {
	g := NewWithT(t)
	observed := newTimeline(applied.Add(700 * time.Millisecond))
	task := func(name string, state operatorv1alpha1.TaskState, since int) operatorv1alpha1.Task {
		return operatorv1alpha1.Task{Name: name, State: state, Since: after(since)}
	}
	observed.addTasks([]operatorv1alpha1.Task{task("Of an earlier one", operatorv1alpha1.TaskSucceeded, -1)})
	observed.addTasks([]operatorv1alpha1.Task{
		task("Deploying a", operatorv1alpha1.TaskRunning, 0),
		task("Waiting until Kubernetes API server rolled out", operatorv1alpha1.TaskPending, 0),
	})
	observed.addTasks([]operatorv1alpha1.Task{
		task("Deploying a", operatorv1alpha1.TaskSucceeded, 10),
		task("Waiting until Kubernetes API server rolled out", operatorv1alpha1.TaskRunning, 11),
	})
	observed.addTasks([]operatorv1alpha1.Task{
		task("Waiting until Kubernetes API server rolled out", operatorv1alpha1.TaskSucceeded, 60),
		task("Deploying b", operatorv1alpha1.TaskRunning, 61), task("Deploying c", operatorv1alpha1.TaskSkipped, 61),
		task("Deploying d", operatorv1alpha1.TaskSucceeded, 75),
	})
	observed.addTasks([]operatorv1alpha1.Task{task("Deploying a", operatorv1alpha1.TaskSucceeded, 80)}) // a task of a later reconciliation
	const virtual = "virtual-garden-gardener-resource-manager"
	observed.addPods([]corev1.Pod{
		pod("etcd-druid", "1", -5, 3), pod("istiod", "1", 2, 12), pod("istio-ingressgateway", "1", 2, 8),
		pod("virtual-garden-kube-apiserver", "1", 20, 50), pod(virtual, "1", 60, 64), pod(virtual, "2", 66, 0),
	}, nil)
	observed.addPods([]corev1.Pod{pod(virtual, "2", 66, 72), pod("istiod", "1", 2, 99), pod("foreign", "1", 2, 99)}, nil)
	g.Expect("\n" + observed.table()).To(Equal(`
began, s  took, s  task
       0       10  Deploying a
      11       49  Waiting until Kubernetes API server rolled out
      61           Deploying b
      75        0  Deploying d

start, s  components that start at the same time, after those above
      10  istiod, istio-ingressgateway
      30  virtual-garden-kube-apiserver
      40  API server of the virtual cluster ready after 60 s: 1.50 times the sum of the starts
      10  virtual-garden-gardener-resource-manager
      50  Garden reconciled after 75 s: 1.50 times the sum of the starts

 wait, s  what takes more than 5 s
      10  istiod starts
       8  istiod is ready, and there is no Pod of virtual-garden-kube-apiserver yet
      30  virtual-garden-kube-apiserver starts
      10  virtual-garden-kube-apiserver is ready, and there is no Pod of virtual-garden-gardener-resource-manager yet
      10  virtual-garden-gardener-resource-manager starts
`))
}

func TestWaitsBeforeTheFirstPodAndAfterTheLastOneAreNamed(t *testing.T) {
	g := NewWithT(t)
	observed := newTimeline(applied)
	g.Expect(observed.waits(0)).To(BeEmpty())
	observed.addPods([]corev1.Pod{pod("etcd-druid", "1", 6, 11)}, nil)
	g.Expect("\n" + observed.waits(20*time.Second)).To(Equal(`

 wait, s  what takes more than 5 s
       6  the Garden is created, and there is no Pod of etcd-druid yet
       9  etcd-druid is ready, and the Garden is not reconciled yet
`))
}

// The operator waits for spec.minReadySeconds only in later rollouts.
func TestPodsOfLaterRolloutsStartUntilTheyAreAvailable(t *testing.T) {
	for revision, want := range map[string]time.Duration{"1": 10 * time.Second, "2": 40 * time.Second} {
		t.Run(revision, func(t *testing.T) {
			observed := newTimeline(applied)
			observed.addPods([]corev1.Pod{pod("gardener-apiserver", "1", 20, 30)}, []appsv1.ReplicaSet{{
				ObjectMeta: metav1.ObjectMeta{
					UID: "gardener-apiserver", Annotations: map[string]string{"deployment.kubernetes.io/revision": revision},
				},
				Spec: appsv1.ReplicaSetSpec{MinReadySeconds: 30},
			}})
			g := NewWithT(t)
			g.Expect(observed.startedStages()).To(HaveLen(1))
			g.Expect(observed.startedStages()[0].took).To(Equal(want))
		})
	}
}
