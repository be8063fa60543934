package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/node"
)

const (
	gardenName = "orchards"
	// patience is the time limit for the first reconciliation, in which all Pods start.
	patience = 15 * time.Minute
	// pollInterval is less than a second, which is the resolution of times in the status of a Garden.
	pollInterval = 500 * time.Millisecond
	// conditions is the number of conditions of a Garden.
	conditions = 4
)

// newClient returns a client without a cache.
func (u up) newClient() (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", u.kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	if err := operatorv1alpha1.AddToScheme(scheme.Scheme); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme.Scheme})
}

// awaitGarden waits until the Garden is reconciled and its conditions are true. Meanwhile it prints each change of the running tasks. It
// returns the times of tasks and Pods.
func (u up) awaitGarden(ctx context.Context, c client.Client, applied time.Time) (*timeline, error) {
	observed, shown := newTimeline(applied), map[string]string{}
	err := local.AwaitEvery(ctx, pollInterval, patience, "Garden "+gardenName+" to be reconciled", func(ctx context.Context) error {
		found, pods, replicaSets := &operatorv1alpha1.Garden{}, &corev1.PodList{}, &appsv1.ReplicaSetList{}
		err := errors.Join(c.Get(ctx, client.ObjectKey{Name: gardenName}, found), c.List(ctx, pods), c.List(ctx, replicaSets))
		if err != nil {
			return err
		}
		for _, task := range found.Status.Tasks {
			if line := describe(task); task.State != operatorv1alpha1.TaskPending && shown[task.Name] != line {
				shown[task.Name] = line
				u.report.Step("%s", line)
			}
		}
		observed.addTasks(found.Status.Tasks)
		observed.addPods(pods.Items, replicaSets.Items)
		return unfinished(found)
	})
	return observed, err
}

// unfinished returns the reason why a Garden is not reconciled, or nil.
func unfinished(garden *operatorv1alpha1.Garden) error {
	operation := garden.Status.LastOperation
	switch {
	case operation == nil || garden.Annotations["gardener.cloud/operation"] != "":
		return errors.New("the operator has not begun")
	case operation.State != operatorv1alpha1.LastOperationSucceeded || garden.Status.ObservedGeneration != garden.Generation:
		return fmt.Errorf("%s: %s", operation.State, operation.Description)
	}
	return nil
}

func describe(task operatorv1alpha1.Task) string {
	line := fmt.Sprintf("%-9s %s", task.State, task.Name)
	if task.WaitingFor != "" {
		line += ": " + task.WaitingFor
	}
	return line
}

// awaitConditions waits until each condition is true, and prints the conditions.
func (u up) awaitConditions(ctx context.Context, c client.Client) error {
	found := &operatorv1alpha1.Garden{}
	err := local.AwaitEvery(ctx, pollInterval, patience, "conditions of Garden "+gardenName, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKey{Name: gardenName}, found); err != nil {
			return err
		}
		if have := len(found.Status.Conditions); have < conditions {
			return fmt.Errorf("%d of %d are known", have, conditions)
		}
		for _, each := range found.Status.Conditions {
			if each.Status != corev1beta1.ConditionTrue {
				return fmt.Errorf("%s is %s: %s", each.Type, each.Status, each.Message)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, each := range found.Status.Conditions {
		u.report.Step("%-7s %s: %s", each.Status, each.Type, each.Message)
	}
	return nil
}

// enterVirtual reads the namespaces of the virtual cluster like a user: through the gateway, with a kubeconfig whose token is renewed.
func (u up) enterVirtual(ctx context.Context) (string, error) {
	u.report.Step("connecting to the virtual cluster through the gateway")
	var namespaces string
	err := local.Await(ctx, patience, "virtual cluster to answer", func(ctx context.Context) (err error) {
		file := virtualKubeconfig(u.node)
		if _, absent := os.Stat(file); absent != nil {
			return fmt.Errorf("find kubeconfig: %w", absent)
		}
		namespaces, err = u.kubectl(ctx, "--kubeconfig", file, "get", "namespaces")
		return err
	})
	return namespaces, err
}

// summary prints the running Pods, their memory and the times.
func (u up) summary(ctx context.Context, namespaces string, observed *timeline) error {
	all, err := u.kubectl(ctx, "get", "managedresources,etcds,pods", "-A")
	if err != nil {
		return err
	}
	wide, err := u.kubectl(ctx, "get", "garden", gardenName, "-o", "wide")
	if err != nil {
		return err
	}
	used, err := node.Memory()
	if err != nil {
		return err
	}
	u.report.Say(fmt.Sprintf(`
%s
%s
%s
Namespaces of the virtual cluster:
%s
Garden %s is reconciled after %.0f s; the node and everything in it use %d MB of memory.

  export KUBECONFIG=%s
  export KUBECONFIG=%s   # the virtual cluster
  make down removes all of it`, observed.table(), all, wide, namespaces,
		gardenName, time.Since(u.begin).Seconds(), used/1e6, u.kubeconfig(), virtualKubeconfig(u.node)))
	return nil
}
