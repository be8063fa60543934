package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RolloutPatience is how long a Deployment of ours may take to roll out, or its Pods to end.
const RolloutPatience = 3 * time.Minute

// RolledOut waits until all Pods of a binary are those of its Deployment as it is now, and available, and those of before
// have ended: one of them may lead until then, with the settings of before. The error says what its Pods wait for.
func (c *Cluster) RolledOut(ctx context.Context, binary string) error {
	deployment := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: SystemNamespace, Name: "espalier-" + binary}
	err := await(ctx, RolloutPatience, "rollout of "+binary, func(ctx context.Context) error {
		if err := c.Client.Get(ctx, key, deployment); err != nil {
			return err
		}
		if err := unfinished(deployment); err != nil {
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

// unfinished returns what a rollout still lacks, or nil.
func unfinished(d *appsv1.Deployment) error {
	want, have := ptr.Deref(d.Spec.Replicas, 1), d.Status
	switch {
	case have.ObservedGeneration < d.Generation:
		return errors.New("its last change was not seen yet")
	case have.UpdatedReplicas != want || have.Replicas != want || have.AvailableReplicas != want:
		return fmt.Errorf("of %d replicas %d are up to date, %d available, %d there", want, have.UpdatedReplicas, have.AvailableReplicas, have.Replicas)
	}
	return nil
}

// settled returns which Pods still end, or that not enough are ready, or nil. A Deployment's status does not know yet of Pods
// that were killed a moment ago.
func settled(pods []corev1.Pod, want int) error {
	ready := 0
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			return fmt.Errorf("pod %s has not ended yet", pod.Name)
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	if ready < want {
		return fmt.Errorf("of %d replicas %d are ready", want, ready)
	}
	return nil
}

// describe says in a line what a Pod is about.
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

// await probes until it succeeds. The error says what was wrong last.
func await(ctx context.Context, limit time.Duration, what string, probe func(context.Context) error) error {
	last := errors.New("there was no time to look")
	err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		last = probe(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w: %w", what, err, last)
	}
	return nil
}
