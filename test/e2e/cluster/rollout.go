package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/local"
)

// RolloutPatience is how long a rollout of a binary's Deployment, or the termination of its Pods, may take.
const RolloutPatience = 3 * time.Minute

// RolledOut waits until all Pods of a binary belong to its current Deployment and are available, and all earlier Pods have terminated: an
// earlier Pod with the former settings may be the leader until it terminates. The error says why Pods are not available.
func (c *Cluster) RolledOut(ctx context.Context, binary string) error {
	deployment := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: SystemNamespace, Name: "espalier-" + binary}
	err := await(ctx, RolloutPatience, "rollout of "+binary, func(ctx context.Context) error {
		if err := c.Client.Get(ctx, key, deployment); err != nil {
			return err
		}
		if err := Unfinished(deployment); err != nil {
			return err
		}
		pods, err := c.Pods(ctx, binary)
		if err != nil {
			return err
		}
		return settled(pods, int(ptr.Deref(deployment.Spec.Replicas, 1)))
	})
	if err == nil {
		return nil
	}
	pods, listErr := c.Pods(context.WithoutCancel(ctx), binary)
	if listErr != nil {
		return errors.Join(err, listErr)
	}
	for _, pod := range pods {
		err = fmt.Errorf("%w; %s", err, describe(pod))
	}
	return err
}

// Unfinished returns an error that says why a rollout is not complete; nil if it is.
func Unfinished(d *appsv1.Deployment) error {
	want, have := ptr.Deref(d.Spec.Replicas, 1), d.Status
	switch {
	case have.ObservedGeneration < d.Generation:
		return errors.New("its last change was not seen yet")
	case have.UpdatedReplicas != want || have.Replicas != want || have.AvailableReplicas != want:
		return fmt.Errorf("of %d replicas %d are up to date, %d available, %d there", want, have.UpdatedReplicas, have.AvailableReplicas,
			have.Replicas)
	}
	return nil
}

// settled returns an error if Pods are terminating or too few are ready. It checks the Pods, because the status of a Deployment does not
// show Pods that were just killed.
func settled(pods []corev1.Pod, want int) error {
	ready := 0
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			return fmt.Errorf("pod %s has not ended yet", pod.Name)
		}
		if isReady(pod) {
			ready++
		}
	}
	if ready < want {
		return fmt.Errorf("of %d replicas %d are ready", want, ready)
	}
	return nil
}

func isReady(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// describe returns the state of a Pod in one line.
func describe(pod corev1.Pod) string {
	parts := []string{"Pod " + pod.Name + " is " + string(pod.Status.Phase)}
	for _, condition := range pod.Status.Conditions {
		if condition.Status == corev1.ConditionFalse && condition.Message != "" {
			parts = append(parts, condition.Message)
		}
	}
	for _, container := range pod.Status.ContainerStatuses {
		if waiting := container.State.Waiting; waiting != nil {
			parts = append(parts, waiting.Reason+": "+waiting.Message)
		}
		if ended := container.LastTerminationState.Terminated; ended != nil {
			parts = append(parts, fmt.Sprintf("ended with %d %s", ended.ExitCode, ended.Message))
		}
	}
	return strings.Join(parts, ", ")
}

// await calls probe until it succeeds. The error contains the last error.
func await(ctx context.Context, limit time.Duration, what string, probe func(context.Context) error) error {
	return local.AwaitEvery(ctx, 500*time.Millisecond, limit, what, probe)
}
