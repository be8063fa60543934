// Package judgement says when ManagedResources and the rollouts of Deployments are ready. It is pure.
package judgement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/api/managedresources"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/api/references"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
	"github.com/espalier-dev/espalier/internal/health"
)

// Ready returns an error unless the objects of a ManagedResource are applied and healthy. The error says why.
func Ready(set *resourcesv1alpha1.ManagedResource) error {
	return managedresources.CheckAppliedAndHealthy(set)
}

// RolledOut does the same as Ready, and also returns an error as long as old Pods run.
func RolledOut(set *resourcesv1alpha1.ManagedResource) error {
	if err := Ready(set); err != nil {
		return err
	}
	return managedresources.CheckNotProgressing(set)
}

// RolloutProblem returns why the rollout of a Deployment is not complete, or "". Pods are the Pods that its selector matches. A terminating
// Pod counts, too, because it may still serve requests.
//
// The first rollout is complete when all Pods are ready, even if spec.minReadySeconds has not passed: this setting only delays the deletion
// of old Pods, and a first rollout has no old Pods.
//
// If credentials are being rotated, every Pod counts that has not finished: see OldPods.
func RolloutProblem(d *appsv1.Deployment, pods []corev1.Pod, rotates bool) string {
	verdict := health.Judge(d)
	problem := cmp.Or(verdict.Failed, verdict.Unhealthy, verdict.Progressing)
	if problem != "" && !isFirstRolloutReady(d) {
		return problem
	}
	counted := health.Relevant
	if rotates {
		if old := OldPods(pods, ptr.Deref(d.Spec.Replicas, 1)); old != "" {
			return old
		}
		counted = isUnfinished
	}
	var number int32
	for i := range pods {
		if counted(&pods[i]) {
			number++
		}
	}
	if rollout, counts := health.RolloutOf(d); counts && rollout.Replicas != number {
		return health.OldPods
	}
	return ""
}

// FormerPods does the same as OldPods, for a live Deployment, nil if there is none. It does not require that new Pods are ready. If
// OldPods names no Pod, FormerPods reads from the status of the Deployment whether all Pods have the present specification of the
// Deployment.
func FormerPods(d *appsv1.Deployment, pods []corev1.Pod) string {
	if d == nil {
		return OldPods(pods, 0)
	}
	if old := OldPods(pods, ptr.Deref(d.Spec.Replicas, 1)); old != "" {
		return old
	}
	switch status := d.Status; {
	case status.ObservedGeneration < d.Generation:
		return fmt.Sprintf("its controller has not observed its last change (%d/%d), so its Pods may use credentials from before the "+
			"rotation; see the log of kube-controller-manager", status.ObservedGeneration, d.Generation)
	case status.UpdatedReplicas < status.Replicas:
		return fmt.Sprintf("only %d of %d Pods have its present specification, so the others may use credentials from before the rotation; "+
			"see its ReplicaSets for the reason", status.UpdatedReplicas, status.Replicas)
	}
	return ""
}

// OldPods returns a sentence that names the Pods of a Deployment that may still use credentials from before a rotation, and the remedy. It
// returns "" if there are none. A Pod may use them until it has finished or is gone, also if it is about to be disrupted or its node is
// lost: containers on a node that does not answer may still run. Replicas is the desired number of Pods, 0 without a Deployment.
func OldPods(pods []corev1.Pod, replicas int32) string {
	running := Unfinished(pods)
	newest := NewestPod(running)
	old := slices.DeleteFunc(slices.Clone(running), func(pod corev1.Pod) bool {
		return pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] == newest.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	})
	if len(old) == 0 && len(running) > int(replicas) {
		old = slices.DeleteFunc(slices.Clone(running), func(pod corev1.Pod) bool {
			return health.Relevant(&pod) && pod.DeletionTimestamp == nil
		})
		if len(old) == 0 {
			old = running
		}
	}
	if len(old) == 0 {
		return ""
	}
	names := make([]string, 0, len(old))
	for i := range old {
		names = append(names, fmt.Sprintf("%s/%s on node %s", old[i].Namespace, old[i].Name, cmp.Or(old[i].Spec.NodeName, "none")))
	}
	slices.Sort(names)
	return health.OldPods + ", which may use credentials from before the rotation: " + strings.Join(names, ", ") +
		"; if such a node does not come back, make sure that it is down, and then delete the Node, or delete its Pods with --force"
}

// FormerClients returns the Pods, in the order of their names, that may still use an earlier generic token kubeconfig of the virtual
// cluster. Current is the name of the Secret with the current one.
func FormerClients(pods []corev1.Pod, current string) []corev1.Pod {
	former := slices.DeleteFunc(Unfinished(pods), func(each corev1.Pod) bool {
		pod := &corev1.Pod{Spec: each.Spec} // the annotations of a Pod may be outdated
		if references.InjectAnnotations(pod) != nil {
			return true
		}
		for key, name := range pod.Annotations {
			kind, isReference := references.KindFromAnnotationKey(key)
			if isReference && kind == references.KindSecret && name != current && strings.HasPrefix(name, gardenaccess.GenericKubeconfig+"-") {
				return false
			}
		}
		return true
	})
	slices.SortFunc(former, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return former
}

// OwnerOf returns the kind and the name of the owner of a Pod: its Deployment, or else its controller. They are empty if it has none.
func OwnerOf(pod *corev1.Pod) (kind, name string) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return "", ""
	}
	deployment, isOfDeployment := strings.CutSuffix(owner.Name, "-"+pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey])
	if owner.Kind == "ReplicaSet" && isOfDeployment {
		return "Deployment", deployment
	}
	return owner.Kind, owner.Name
}

// Unfinished returns the Pods whose containers run or may start.
func Unfinished(pods []corev1.Pod) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool { return !isUnfinished(&pod) })
}

// isUnfinished reports whether containers of a Pod run or may start.
func isUnfinished(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// revision is an annotation in which the controller of Deployments numbers the ReplicaSets of a Deployment.
const revision = "deployment.kubernetes.io/revision"

// isFirstRolloutReady reports whether a Deployment has never had another ReplicaSet than its first one, and all replicas of this ReplicaSet
// are ready.
func isFirstRolloutReady(d *appsv1.Deployment) bool {
	desired, status := ptr.Deref(d.Spec.Replicas, 1), d.Status
	return d.Annotations[revision] == "1" && status.ObservedGeneration >= d.Generation &&
		status.Replicas == desired && status.UpdatedReplicas == desired && status.ReadyReplicas == desired
}

// NewestPod returns the Pod that was created last, nil if there is none. Its logs say why a rollout does not complete.
func NewestPod(pods []corev1.Pod) *corev1.Pod {
	var newest *corev1.Pod
	for i := range pods {
		if newest == nil || newest.CreationTimestamp.Before(&pods[i].CreationTimestamp) {
			newest = &pods[i]
		}
	}
	return newest
}

// KubernetesVersion returns the version of Kubernetes that a live Deployment runs: the version in the annotation of the Deployment, or,
// without the annotation, the tag of the image of the container with the given name. It is nil if this text is not a version, or if there
// is none.
func KubernetesVersion(live *appsv1.Deployment, container string) *version.Version {
	text := live.Annotations[operatorv1alpha1.AnnotationKubernetesVersion]
	for i := range live.Spec.Template.Spec.Containers {
		if c := &live.Spec.Template.Spec.Containers[i]; text == "" && c.Name == container {
			text = c.Image[strings.LastIndex(c.Image, ":")+1:]
		}
	}
	parsed, err := version.ParseSemantic(text)
	if err != nil {
		return nil
	}
	return parsed
}
