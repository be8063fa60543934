package health

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// newReplicaSetAvailable is the reason of a Deployment's Progressing condition when its rollout is complete.
const newReplicaSetAvailable = "NewReplicaSetAvailable"

func judgeDeployment(d *appsv1.Deployment) Verdict {
	conditions := d.Status.Conditions
	unhealthy := cmp.Or(
		required(conditions, string(appsv1.DeploymentAvailable), conditionOfDeployment),
		optional(conditions, string(appsv1.DeploymentProgressing), isTrue, conditionOfDeployment),
		optional(conditions, string(appsv1.DeploymentReplicaFailure), isFalse, conditionOfDeployment),
	)
	if ptr.Deref(d.Spec.ProgressDeadlineSeconds, 0) == endless {
		return rollout(d.Status.ObservedGeneration, d.Generation, unhealthy, replacing(d))
	}
	return rollout(d.Status.ObservedGeneration, d.Generation, unhealthy,
		rolling(find(conditions, string(appsv1.DeploymentProgressing), conditionOfDeployment)))
}

// endless is the value of progressDeadlineSeconds in a Deployment without a deadline. The Deployment controller reports no condition
// Progressing for it.
const endless = math.MaxInt32

// replacing describes an incomplete rollout of a Deployment by the numbers of its replicas; "" if the rollout is complete.
func replacing(d *appsv1.Deployment) string {
	desired, status := ptr.Deref(d.Spec.Replicas, 1), d.Status
	if text := updated(status.UpdatedReplicas, desired); text != "" {
		return text
	}
	if status.Replicas > status.UpdatedReplicas {
		return OldPods
	}
	return short("available", status.AvailableReplicas, desired)
}

// rollout returns the verdict about a workload that has rollouts. If the status of the workload is outdated, the workload counts as
// unhealthy and as progressing, whatever its other fields show.
func rollout(seen, generation int64, unhealthy, progressing string) Verdict {
	behind := outdated(seen, generation)
	return Verdict{
		Checked: true, Unhealthy: cmp.Or(behind, unhealthy), Progressing: cmp.Or(behind, progressing), Unobserved: behind != "",
	}
}

func conditionOfDeployment(c *appsv1.DeploymentCondition) condition {
	return condition{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: c.Message}
}

// rolling describes an incomplete rollout of a Deployment by its condition Progressing. It returns "" if the rollout is complete. If the
// condition is missing, the text says so. If the condition has no message, the text contains its status and its reason.
func rolling(progress condition) string {
	switch {
	case progress.Type == "":
		return missing(string(appsv1.DeploymentProgressing))
	case progress.Status == isTrue && progress.Reason == newReplicaSetAvailable:
		return ""
	case progress.Message == "":
		return fmt.Sprintf("condition %q is %s due to %s", progress.Type, progress.Status, progress.Reason)
	}
	return progress.Message
}

func judgeStatefulSet(s *appsv1.StatefulSet) Verdict {
	desired := ptr.Deref(s.Spec.Replicas, 1)
	return rollout(s.Status.ObservedGeneration, s.Generation,
		short("ready", s.Status.ReadyReplicas, desired), updated(s.Status.UpdatedReplicas, toUpdate(s, desired)))
}

// toUpdate returns the number of replicas of a StatefulSet that the StatefulSet controller updates: the replicas whose ordinal is at least
// the partition. With the strategy OnDelete the number is 0, because users delete the Pods.
func toUpdate(s *appsv1.StatefulSet, desired int32) int32 {
	strategy := s.Spec.UpdateStrategy
	switch {
	case strategy.Type == appsv1.OnDeleteStatefulSetStrategyType:
		return 0
	case strategy.RollingUpdate != nil:
		return desired - ptr.Deref(strategy.RollingUpdate.Partition, 0)
	}
	return desired
}

// short returns a message if fewer replicas than desired have the quality, for example "available"; "" if enough have it.
func short(quality string, replicas, desired int32) string {
	if replicas >= desired {
		return ""
	}
	return fmt.Sprintf("not enough %s replicas (%d/%d)", quality, replicas, desired)
}

func judgeDaemonSet(d *appsv1.DaemonSet) Verdict {
	toUpdate := d.Status.DesiredNumberScheduled
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		toUpdate = 0 // users delete Pods
	}
	return rollout(d.Status.ObservedGeneration, d.Generation, pods(d), updated(d.Status.UpdatedNumberScheduled, toUpdate))
}

// pods returns the first fault of the Pods of a DaemonSet; "" if there is none. During a rollout, the update strategy defines how many
// Pods may be unavailable. At other times, no Pod may be unavailable.
func pods(d *appsv1.DaemonSet) string {
	status := d.Status
	if status.CurrentNumberScheduled < status.DesiredNumberScheduled {
		return fmt.Sprintf("not enough scheduled pods (%d/%d)", status.CurrentNumberScheduled, status.DesiredNumberScheduled)
	}
	if status.NumberMisscheduled > 0 {
		return fmt.Sprintf("misscheduled pods found (%d)", status.NumberMisscheduled)
	}
	down, scheduled := status.NumberUnavailable, status.CurrentNumberScheduled
	if status.UpdatedNumberScheduled < status.DesiredNumberScheduled {
		if allowed := maxUnavailable(d); int(down) > allowed {
			return fmt.Sprintf("too many unavailable pods found (%d/%d, only max. %d unavailable pods allowed)", down, scheduled, allowed)
		}
		return ""
	}
	if down > 0 {
		return fmt.Sprintf("too many unavailable pods found (%d/%d)", down, scheduled)
	}
	return ""
}

// maxUnavailable returns how many Pods of a DaemonSet may be unavailable during a rollout: 0, unless the strategy sets a number or a
// percentage, which is rounded down. An invalid value counts as 0.
func maxUnavailable(d *appsv1.DaemonSet) int {
	strategy := d.Spec.UpdateStrategy
	if strategy.Type != appsv1.RollingUpdateDaemonSetStrategyType || strategy.RollingUpdate == nil {
		return 0
	}
	allowed, err := intstr.GetScaledValueFromIntOrPercent(strategy.RollingUpdate.MaxUnavailable, int(d.Status.DesiredNumberScheduled), false)
	if err != nil {
		return 0
	}
	return allowed
}

func judgeReplicaSet(r *appsv1.ReplicaSet) Verdict {
	return judgeReplicas("ReplicaSet", outdated(r.Status.ObservedGeneration, r.Generation), r.Status.ReadyReplicas, r.Spec.Replicas)
}

func judgeReplicationController(r *corev1.ReplicationController) Verdict {
	return judgeReplicas("ReplicationController", outdated(r.Status.ObservedGeneration, r.Generation), r.Status.ReadyReplicas, r.Spec.Replicas)
}

// judgeReplicas returns the verdict about a ReplicaSet or a ReplicationController. An object without a desired number of replicas needs no
// ready replicas. The argument behind is the text about an outdated status; "" if the status is current.
func judgeReplicas(kind, behind string, ready int32, desired *int32) Verdict {
	verdict := Verdict{Checked: true, Unhealthy: behind, Unobserved: behind != ""}
	if behind == "" && ready < ptr.Deref(desired, 0) {
		verdict.Unhealthy = kind + " does not have minimum availability"
	}
	return verdict
}

func judgePod(p *corev1.Pod) Verdict {
	if p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodSucceeded {
		return Verdict{Checked: true}
	}
	return Verdict{Checked: true, Unhealthy: fmt.Sprintf("pod is in invalid phase %q (expected one of %q)",
		p.Status.Phase, []corev1.PodPhase{corev1.PodRunning, corev1.PodSucceeded})}
}

func judgeService(s *corev1.Service) Verdict {
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0 {
		return Verdict{Checked: true, Unhealthy: "service is missing ingress status"}
	}
	return Verdict{Checked: true}
}

func judgeJob(j *batchv1.Job) Verdict {
	return Verdict{Checked: true, Unhealthy: optional(j.Status.Conditions, string(batchv1.JobFailed), isFalse, conditionOfJob)}
}

// IsFinished reports whether a Job has completed or failed.
func IsFinished(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

func conditionOfJob(c *batchv1.JobCondition) condition {
	return condition{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: c.Message}
}

func judgeDefinition(conditions []apiextensionsv1.CustomResourceDefinitionCondition) Verdict {
	return Verdict{Checked: true, Unhealthy: cmp.Or(
		required(conditions, string(apiextensionsv1.NamesAccepted), conditionOfDefinition),
		required(conditions, string(apiextensionsv1.Established), conditionOfDefinition),
		optional(conditions, string(apiextensionsv1.Terminating), isFalse, conditionOfDefinition),
	)}
}

func conditionOfDefinition(c *apiextensionsv1.CustomResourceDefinitionCondition) condition {
	return condition{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: c.Message}
}
