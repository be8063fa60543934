// Package upgrade raises the version of Kubernetes of a virtual cluster, one minor version after the other. It keeps no state of its own:
// the Garden says how far the upgrade is, so that the command can end at any point and run again.
package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/garden/plan"
	"github.com/espalier-dev/espalier/internal/gardenstatus"
)

// Upgrade is an upgrade of the virtual cluster of the only Garden.
type Upgrade struct {
	// Client reads and patches the Garden.
	Client client.WithWatch
	// Foresee makes the plan for a Garden in a file.
	Foresee func(ctx context.Context, file []byte) (*plan.Plan, error)
	Path    Path
	// Within is how long each step may take.
	Within time.Duration
	// Out receives the progress.
	Out io.Writer
}

// readPeriod is the time after which the Garden is read again although no change was seen.
const readPeriod = 10 * time.Second

// errRefused is why an upgrade does not go on.
var errRefused = errors.New("the upgrade is refused")

// Run upgrades the virtual cluster, and returns when it has the last version of the path and is healthy. An error says why it did not go
// on; nothing is changed back.
func (u Upgrade) Run(ctx context.Context) error {
	for {
		garden, err := u.untilSettled(ctx)
		if err != nil {
			return err
		}
		current := garden.Spec.VirtualCluster.Kubernetes.Version
		next, err := u.Path.After(current)
		if err != nil {
			return err
		}
		if next == nil {
			return u.print("The virtual cluster has Kubernetes %s.", current)
		}
		if failure := u.step(ctx, garden, next.String()); failure != nil {
			return failure
		}
	}
}

// step sets the version of the Garden if its plan is not refused.
func (u Upgrade) step(ctx context.Context, garden *operatorv1alpha1.Garden, next string) error {
	current := garden.Spec.VirtualCluster.Kubernetes.Version
	changed := garden.DeepCopy()
	changed.Spec.VirtualCluster.Kubernetes.Version = next
	file, err := fileOf(changed)
	if err != nil {
		return err
	}
	p, err := u.Foresee(ctx, file)
	if err != nil {
		return fmt.Errorf("plan the step from %s to %s: %w", current, next, err)
	}
	if p.IsRefused() {
		return fmt.Errorf("%w: from %s to %s: %s", errRefused, current, next, strings.Join(refusals(p), "; "))
	}
	if err := u.Client.Patch(ctx, changed, conflict.MergeFrom(garden)); err != nil {
		return fmt.Errorf("set spec.virtualCluster.kubernetes.version to %s: %w", next, err)
	}
	return u.print("From %s to %s: %d workloads restart.", current, next, len(p.Restarts))
}

func refusals(p *plan.Plan) []string {
	all := append([]string{}, p.Refused...)
	for _, each := range p.Missing {
		if each.Blocks {
			all = append(all, each.Check+": "+each.Message)
		}
	}
	return all
}

// fileOf returns the manifest of a Garden, for a plan.
func fileOf(g *operatorv1alpha1.Garden) ([]byte, error) {
	file, err := yaml.Marshal(map[string]any{
		"apiVersion": operatorv1alpha1.SchemeGroupVersion.String(), "kind": "Garden", "spec": g.Spec,
		"metadata": map[string]any{"name": g.Name, "annotations": g.Annotations, "labels": g.Labels},
	})
	if err != nil {
		return nil, fmt.Errorf("encode Garden: %w", err)
	}
	return file, nil
}

// untilSettled waits until the Garden is reconciled and healthy, and returns it.
func (u Upgrade) untilSettled(ctx context.Context) (*operatorv1alpha1.Garden, error) {
	ctx, cancel := context.WithTimeout(ctx, u.Within)
	defer cancel()
	ticker := time.NewTicker(readPeriod)
	defer ticker.Stop()
	said := ""
	for {
		garden, err := u.read(ctx)
		if err == nil {
			waits := Problem(garden)
			if waits == "" {
				return garden, nil
			}
			if waits != said {
				said = waits
				err = u.print("Waiting: %s", waits)
			}
		}
		if err == nil {
			err = gardenstatus.UntilChange(ctx, u.Client, ticker.C)
		}
		switch {
		case ctx.Err() != nil && said != "":
			return nil, fmt.Errorf("the Garden is not settled: %s; run the command again to go on: %w", said, context.Cause(ctx))
		case err != nil:
			return nil, err
		}
	}
}

// read returns the only Garden, unless it is being deleted.
func (u Upgrade) read(ctx context.Context) (*operatorv1alpha1.Garden, error) {
	gardens := &operatorv1alpha1.GardenList{}
	if err := u.Client.List(ctx, gardens); err != nil {
		return nil, fmt.Errorf("list Gardens: %w", err)
	}
	if len(gardens.Items) != 1 {
		return nil, fmt.Errorf("the cluster has %d Gardens; it must have one", len(gardens.Items))
	}
	garden := &gardens.Items[0]
	if garden.DeletionTimestamp != nil {
		return nil, fmt.Errorf("%w: Garden %s is being deleted", errRefused, garden.Name)
	}
	return garden, nil
}

func (u Upgrade) print(format string, args ...any) error {
	if _, err := fmt.Fprintf(u.Out, format+"\n", args...); err != nil {
		return fmt.Errorf("print progress: %w", err)
	}
	return nil
}

// required are the conditions that must be True before each step and after the last one.
var required = []corev1beta1.ConditionType{
	operatorv1alpha1.VirtualGardenAPIServerAvailable, operatorv1alpha1.RuntimeComponentsHealthy, operatorv1alpha1.VirtualComponentsHealthy,
}

// Problem returns why a Garden is not settled, in one line; empty if it is.
func Problem(g *operatorv1alpha1.Garden) string {
	paused := corev1beta1.GetCondition(g.Status.Conditions, operatorv1alpha1.ReconciliationPaused)
	last := g.Status.LastOperation
	switch {
	case paused != nil && paused.Status == corev1beta1.ConditionTrue:
		return "the Garden is paused: " + paused.Message
	case last == nil || g.Status.ObservedGeneration != g.Generation:
		return "the operator has not begun to reconcile the last change of the Garden"
	case last.State != operatorv1alpha1.LastOperationSucceeded:
		description, _, _ := strings.Cut(last.Description, "\n")
		return fmt.Sprintf("%s is %s: %s", last.Type, last.State, description)
	}
	for _, each := range required {
		condition := corev1beta1.GetCondition(g.Status.Conditions, each)
		if condition == nil {
			return fmt.Sprintf("condition %s is not known", each)
		}
		if condition.Status != corev1beta1.ConditionTrue {
			return fmt.Sprintf("condition %s is %s: %s", each, condition.Status, condition.Message)
		}
	}
	return ""
}
