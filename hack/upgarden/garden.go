package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/node"
)

//go:embed garden.yaml
var garden string

const (
	gardenName = "orchards"
	// patience is for the first reconciliation, in which all Pods start.
	patience = 15 * time.Minute
)

// applyGarden creates the Garden as soon as the API server calls the webhooks, and has it reconciled.
func (u up) applyGarden(ctx context.Context) error {
	u.report.Step("creating Garden %s of hack/upgarden/garden.yaml", gardenName)
	objects := strings.ReplaceAll(garden, "$BACKUPS", filepath.Join(u.node, "backups"))
	if err := u.apply(ctx, objects); err != nil {
		return err
	}
	_, err := u.kubectl(ctx, "", "annotate", "--overwrite", "garden", gardenName, "gardener.cloud/operation=reconcile")
	return err
}

// awaitGarden prints each change of tasks that have begun until the Garden is reconciled.
func (u up) awaitGarden(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", u.kubeconfig())
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	err = operatorv1alpha1.AddToScheme(scheme)
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	shown := map[string]string{}
	return local.Await(ctx, patience, "Garden "+gardenName+" to be reconciled", func(ctx context.Context) error {
		found := &operatorv1alpha1.Garden{}
		if err := c.Get(ctx, client.ObjectKey{Name: gardenName}, found); err != nil {
			return err
		}
		for _, task := range found.Status.Tasks {
			if line := describe(task); task.State != operatorv1alpha1.TaskPending && shown[task.Name] != line {
				shown[task.Name] = line
				u.report.Step("%s", line)
			}
		}
		operation := found.Status.LastOperation
		switch {
		case operation == nil || found.Annotations["gardener.cloud/operation"] != "":
			return errors.New("the operator has not begun")
		case operation.State == operatorv1alpha1.LastOperationSucceeded && found.Status.ObservedGeneration == found.Generation:
			return nil
		}
		return fmt.Errorf("%s: %s", operation.State, operation.Description)
	})
}

func describe(task operatorv1alpha1.Task) string {
	line := fmt.Sprintf("%-9s %s", task.State, task.Name)
	if task.WaitingFor != "" {
		line += ": " + task.WaitingFor
	}
	return line
}

// summary prints what runs, and what it costs.
func (u up) summary(ctx context.Context) error {
	all, err := u.kubectl(ctx, "", "get", "gardens,managedresources,etcds,pods", "-A")
	if err != nil {
		return err
	}
	used, err := node.Memory()
	if err != nil {
		return err
	}
	fmt.Fprintf(u.out, `
%s
Garden %s is reconciled after %.0f s; the node and everything in it use %d MB of memory.

  export KUBECONFIG=%s
  make down removes all of it
`, all, gardenName, time.Since(u.begin).Seconds(), used/1e6, u.kubeconfig())
	return nil
}
