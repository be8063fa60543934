package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/local/child"
)

// The example, and the binary that it demonstrates.
const (
	walkThroughBinary = "managedresource-controller"
	exampleFile       = "examples/first-managedresource.yaml"
	exampleNamespace  = "orchard"
	exampleName       = "first"
)

// walkThrough applies the example and shows what the controller does with it.
func (s settings) walkThrough(ctx context.Context, r *report, w world) error {
	c := w.client
	r.step("applying %s", exampleFile)
	objects, err := readManifests(filepath.Join(s.root, exampleFile))
	if err != nil {
		return err
	}
	err = apply(ctx, c, objects...)
	if err != nil {
		return err
	}
	set, err := s.showApplied(ctx, r, c, binary{name: walkThroughBinary}, exampleNamespace, exampleName)
	if err != nil {
		return err
	}
	if s.cluster == "" {
		err = s.showConditions(ctx, r, c)
		if err != nil {
			return err
		}
	}
	if err := showObjects(ctx, r, c, set); err != nil {
		return err
	}
	if err := showDriftRepair(ctx, r, c); err != nil {
		return err
	}
	return s.showPlan(ctx, r)
}

// showConditions waits until the set is healthy and rolled out, which depends on its Deployment.
func (s settings) showConditions(ctx context.Context, r *report, c client.Client) error {
	set := object("resources.gardener.cloud/v1alpha1", "ManagedResource", exampleNamespace, exampleName, nil)
	return await(ctx, 60*time.Second, describe(set)+" to be healthy and rolled out", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		for _, want := range [][2]string{{"ResourcesHealthy", "True"}, {"ResourcesProgressing", "False"}} {
			if status, reason, message := condition(set, want[0]); status != want[1] {
				return fmt.Errorf("%s is %s (%s: %s)", want[0], status, reason, message)
			}
		}
		for _, kind := range []string{"ResourcesHealthy", "ResourcesProgressing"} {
			status, reason, message := condition(set, kind)
			r.step("ManagedResource %s/%s: %s is %s (%s: %s)", exampleNamespace, exampleName, kind, status, reason, message)
		}
		return nil
	})
}

// showApplied waits until a binary has applied the current generation of a ManagedResource, and returns that.
func (s settings) showApplied(
	ctx context.Context, r *report, c client.Client, b binary, namespace, name string,
) (*unstructured.Unstructured, error) {
	set := object("resources.gardener.cloud/v1alpha1", "ManagedResource", namespace, name, nil)
	if err := untilApplied(ctx, c, set); err != nil {
		log := s.logOf(b)
		return nil, fmt.Errorf("%w; the end of %s:\n%s", err, log, child.Tail(log))
	}
	_, reason, message := condition(set, "ResourcesApplied")
	r.step("ManagedResource %s/%s: ResourcesApplied is True (%s: %s)", namespace, name, reason, message)
	return set, nil
}

func untilApplied(ctx context.Context, c client.Client, set *unstructured.Unstructured) error {
	return await(ctx, 60*time.Second, describe(set)+" to be applied", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		observed, _, _ := unstructured.NestedInt64(set.Object, "status", "observedGeneration")
		status, reason, message := condition(set, "ResourcesApplied")
		switch {
		case status == "":
			return errors.New("it has no condition ResourcesApplied yet")
		case observed != set.GetGeneration():
			return fmt.Errorf("generation %d was not observed yet", set.GetGeneration())
		case status != "True":
			return fmt.Errorf("ResourcesApplied is %s (%s: %s)", status, reason, message)
		default:
			return nil
		}
	})
}

// showObjects reads every object that the ManagedResource lists in its status.
func showObjects(ctx context.Context, r *report, c client.Client, set *unstructured.Unstructured) error {
	rows := [][]string{{"KIND", "NAMESPACE", "NAME", "STATE"}}
	references, _, err := unstructured.NestedSlice(set.Object, "status", "resources")
	if err != nil {
		return fmt.Errorf("read status of %s: %w", describe(set), err)
	}
	for _, entry := range references {
		fields, _ := entry.(map[string]any)
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": fields["apiVersion"], "kind": fields["kind"]}}
		namespace, _ := fields["namespace"].(string)
		name, _ := fields["name"].(string)
		row := []string{o.GetKind(), namespace, name, "missing"}
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read %s %s/%s: %w", row[0], namespace, name, err)
		}
		if !apierrors.IsNotFound(err) {
			row[3] = stateOf(o)
		}
		rows = append(rows, row)
	}
	r.table(rows)
	return nil
}

// stateOf describes the state of an existing object in one or two words.
func stateOf(o *unstructured.Unstructured) string {
	switch o.GetKind() {
	case "Deployment":
		wanted, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
		available, _, _ := unstructured.NestedInt64(o.Object, "status", "availableReplicas")
		return fmt.Sprintf("%d of %d available", available, wanted)
	case "CustomResourceDefinition":
		if status, _, _ := condition(o, "Established"); status == "True" {
			return "established"
		}
		return "not established"
	default:
		return "present"
	}
}

// howToGoOn is the last output of make up.
func (s settings) howToGoOn() string {
	kubectl := "bin/kubectl"
	if s.cluster != "" {
		kubectl = "kubectl"
	}
	set := " -n " + exampleNamespace + " "
	lines := [][2]string{
		{"export KUBECONFIG=" + s.kubeconfig(), ""},
		{kubectl + " get managedresources --all-namespaces", ""},
		{kubectl + set + "edit configmap harvest", "is undone at once"},
		{kubectl + set + "edit secret " + exampleName, "what you change here is carried out"},
		{kubectl + set + "delete managedresource " + exampleName, "takes its objects along"},
		{"tail -f .local/" + walkThroughBinary + "/log", "what the controller says"},
		{"make up", "again, with newly built binaries"},
		{"make down", "stops everything"},
	}
	if s.cluster == "" { // a cluster of the user's has no CRDs of Projects and Gardens
		lines = slices.Insert(lines, len(lines)-3,
			[2]string{
				kubectl + " apply -f " + projectExample, "a project again",
			}, [2]string{kubectl + " get garden -o wide", "the Garden and its state"})
	}
	var text strings.Builder
	text.WriteString("\nIt keeps running in the background. Go on with it:\n\n")
	for _, line := range lines {
		if line[1] != "" {
			line[0] = fmt.Sprintf("%-56s # %s", line[0], line[1])
		}
		text.WriteString("  " + line[0] + "\n")
	}
	return text.String()
}
