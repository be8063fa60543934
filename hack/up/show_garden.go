package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/local/standin"
)

const (
	gardenExample   = "examples/garden.yaml"
	gardenNamespace = "garden"
	operation       = "gardener.cloud/operation"
)

// Parts of the errors of the webhooks.
const (
	noOverlap = "pod network of runtime cluster intersects with service network of virtual cluster"
	noSecond  = "there can be only one operator.gardener.cloud/v1alpha1.Garden resource in the system at a time"
)

// resourceManager is managedresource-controller as the operator deploys it: with the ConfigMap and the ServiceAccount of this name.
func resourceManager() binary {
	return binary{name: "gardener-resource-manager", program: walkThroughBinary, namespace: gardenNamespace}
}

// showGarden applies a Garden and shows what the operator creates for it, and which Gardens the API server refuses.
func (s settings) showGarden(ctx context.Context, r *report, w world) error {
	objects, err := readManifests(filepath.Join(s.root, gardenExample))
	if err != nil {
		return err
	}
	example := objects[0]
	err = showWrongGarden(ctx, r, w, example)
	if err != nil {
		return err
	}
	garden, err := applyGarden(ctx, r, w, example)
	if err != nil {
		return err
	}
	playing, stop := context.WithCancel(ctx)
	defer stop()
	go standin.Player{Client: w.client, Parts: []standin.Part{standin.Etcds(), standin.LoadBalancers()}}.Play(playing)
	err = s.startResourceManager(ctx, r, w)
	if err != nil {
		return err
	}
	err = showTasks(ctx, r, w, garden)
	if err != nil {
		return err
	}
	err = showAuthorities(ctx, r, w)
	if err != nil {
		return err
	}
	err = s.showResourceManager(ctx, r, w)
	if err != nil {
		return err
	}
	second := example.DeepCopy()
	second.SetName("second")
	answer, err := verdict(apply(ctx, client.NewDryRunClient(w.client), second), noSecond)
	if err != nil {
		return fmt.Errorf("create a second Garden: %w", err)
	}
	r.step("gardens: an administrator applies a second one: %s", answer)
	return nil
}

// showWrongGarden waits until the API server calls the webhooks, which refuse networks that have addresses in common.
func showWrongGarden(ctx context.Context, r *report, w world, example *unstructured.Unstructured) error {
	wrong := withOverlap(example)
	var answer string
	err := await(ctx, 60*time.Second, "the API server to refuse a wrong Garden", func(ctx context.Context) (err error) {
		answer, err = verdict(apply(ctx, client.NewDryRunClient(w.client), wrong.DeepCopy()), noOverlap)
		return err
	})
	if err != nil {
		return err
	}
	r.step("gardens: an administrator applies one whose networks overlap: %s", answer)
	return nil
}

// withOverlap returns a Garden in which Services of the virtual cluster have addresses of Pods of the runtime cluster.
func withOverlap(example *unstructured.Unstructured) *unstructured.Unstructured {
	wrong := example.DeepCopy()
	pods, _, _ := unstructured.NestedStringSlice(wrong.Object, "spec", "runtimeCluster", "networking", "pods")
	_ = unstructured.SetNestedStringSlice(wrong.Object, pods, "spec", "virtualCluster", "networking", "services")
	return wrong
}

// applyGarden applies the Garden, and asks for its reconciliation, which it has in a later run too.
func applyGarden(ctx context.Context, r *report, w world, example *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	r.step("gardens: applying %s", gardenExample)
	garden := example.DeepCopy()
	garden.SetAnnotations(map[string]string{operation: "reconcile"})
	return garden, apply(ctx, w.client, garden.DeepCopy())
}

// startResourceManager starts the resource manager as soon as the operator has deployed it. The operator waits for what it applies.
func (s settings) startResourceManager(ctx context.Context, r *report, w world) error {
	first := object("resources.gardener.cloud/v1alpha1", "ManagedResource", gardenNamespace, "garden-system", nil)
	err := await(ctx, 3*time.Minute, describe(first)+" to be deployed", func(ctx context.Context) error {
		return w.client.Get(ctx, client.ObjectKeyFromObject(first), first)
	})
	if err != nil {
		return err
	}
	b := resourceManager()
	r.step("gardens: the Pods of the fake node run no program, so make up itself starts the program of Deployment %s/%s,", b.namespace, b.name)
	_, _ = fmt.Fprintf(r, "with the configuration and the ServiceAccount that the operator has created for it,\n"+
		"and sets the status of Etcds and load balancers")
	return s.startBinary(ctx, r, w, b, len(binaries()), s.installResourceManager)
}

// showTasks waits until the Garden is reconciled.
func showTasks(ctx context.Context, r *report, w world, garden *unstructured.Unstructured) error {
	shown := ""
	err := await(ctx, 5*time.Minute, describe(garden)+" to be reconciled", func(ctx context.Context) error {
		failure := w.client.Get(ctx, client.ObjectKeyFromObject(garden), garden)
		if failure != nil {
			return failure
		}
		state, _, _ := unstructured.NestedString(garden.Object, "status", "lastOperation", "state")
		description, _, _ := unstructured.NestedString(garden.Object, "status", "lastOperation", "description")
		if garden.GetAnnotations()[operation] != "" {
			return errors.New("the operator has not begun")
		}
		if shown != description {
			shown = description
			r.step("Garden %s: %s", garden.GetName(), description)
		}
		if state != "Succeeded" {
			return fmt.Errorf("its last operation is %q: %s", state, description)
		}
		return nil
	})
	if err != nil {
		return err
	}
	rows := [][]string{{"TASK", "STATE", "SINCE"}}
	tasks, _, _ := unstructured.NestedSlice(garden.Object, "status", "tasks")
	for _, task := range members(tasks) {
		rows = append(rows, []string{fmt.Sprint(task["name"]), fmt.Sprint(task["state"]), fmt.Sprint(task["since"])})
	}
	r.table(rows)
	return nil
}

// showAuthorities lists the Secrets with certificate authorities, without those that have only their certificates.
func showAuthorities(ctx context.Context, r *report, w world) error {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("v1")
	list.SetKind("SecretList")
	err := w.client.List(ctx, list, client.InNamespace(gardenNamespace), client.MatchingLabels{"manager-identity": "gardener-operator"})
	if err != nil {
		return fmt.Errorf("list certificate authorities: %w", err)
	}
	rows := [][]string{{"CERTIFICATE AUTHORITY", "SECRET", "VALID UNTIL"}}
	for _, secret := range list.Items {
		labels := secret.GetLabels()
		if !strings.HasPrefix(labels["name"], "ca") || labels["bundle-for"] != "" {
			continue
		}
		seconds, err := strconv.ParseInt(labels["valid-until-time"], 10, 64)
		if err != nil {
			return fmt.Errorf("read expiry of %s: %w", describe(&secret), err)
		}
		rows = append(rows, []string{labels["name"], secret.GetName(), time.Unix(seconds, 0).UTC().Format(time.RFC3339)})
	}
	r.step("gardens: its certificate authorities, in namespace %s", gardenNamespace)
	r.table(rows)
	return nil
}

// showResourceManager shows that the resource manager keeps a ManagedResource of the operator applied.
func (s settings) showResourceManager(ctx context.Context, r *report, w world) error {
	b := resourceManager()
	set, err := s.showApplied(ctx, r, w.client, b, gardenNamespace, "garden-system")
	if err != nil {
		return err
	}
	class, _, _ := unstructured.NestedString(set.Object, "spec", "class")
	_, _ = fmt.Fprintf(r, "its class is %s", class)
	err = showObjects(ctx, r, w.client, set)
	if err != nil {
		return err
	}
	return showRepair(ctx, r, w.client, deleted(object("scheduling.k8s.io/v1", "PriorityClass", "", "gardener-garden-system-100", nil)))
}

// installResourceManager writes the files of the resource manager. Only addresses differ from what the operator has deployed.
func (s settings) installResourceManager(ctx context.Context, w world, b binary, e environment) error {
	deployed := object("v1", "ConfigMap", b.namespace, b.name, nil)
	err := w.client.Get(ctx, client.ObjectKeyFromObject(deployed), deployed)
	if err != nil {
		return fmt.Errorf("read configuration of %s: %w", b.name, err)
	}
	config, _, _ := unstructured.NestedString(deployed.Object, "data", "config.yaml")
	return s.writeFiles(ctx, w, b, e, config+addresses("sourceClientConnection", e))
}
