package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const webhooksExample = "examples/webhooks.yaml"

// showWebhooks applies a Deployment and shows how the webhooks have changed it and its Pods.
func (s settings) showWebhooks(ctx context.Context, r *report, w world) error {
	r.step("admission webhooks: applying %s", webhooksExample)
	objects, err := readManifests(filepath.Join(s.root, webhooksExample))
	if err != nil {
		return err
	}
	namespace, before := objects[0], objects[1]
	err = apply(ctx, w.client, namespace)
	if err != nil {
		return err
	}
	after := before.DeepCopy()
	err = await(ctx, 30*time.Second, "the API server to call the webhooks", func(ctx context.Context) error {
		after = before.DeepCopy()
		failure := apply(ctx, w.client, after)
		if failure == nil {
			failure = w.client.Get(ctx, client.ObjectKeyFromObject(after), after)
		}
		if failure != nil {
			return failure
		}
		if len(spreads(after)) == 0 {
			return errors.New("the Deployment is stored as it was sent")
		}
		return nil
	})
	if err != nil {
		return err
	}
	rows := [][]string{{"DEPLOYMENT " + before.GetName(), "AS APPLIED", "AS STORED"}}
	for _, each := range []struct {
		what string
		of   func(*unstructured.Unstructured) []string
	}{{"replicas", replicas}, {"zones", zones}, {"topology spread", spreads}, {"tolerations", tolerations}} {
		rows = append(rows, []string{each.what, orNone(each.of(before)), orNone(each.of(after))})
	}
	r.table(rows)
	return showPod(ctx, r, w.client, namespace.GetName())
}

// showPod shows a Pod of the Deployment, which exists only if a controller manager runs.
func showPod(ctx context.Context, r *report, c client.Client, namespace string) error {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("v1")
	list.SetKind("PodList")
	return await(ctx, 30*time.Second, "a Pod in "+namespace, func(ctx context.Context) error {
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return errors.New("there is none")
		}
		profile, _, _ := unstructured.NestedString(list.Items[0].Object, "spec", "securityContext", "seccompProfile", "type")
		_, _ = fmt.Fprintf(r, "its Pods have the seccomp profile %s", profile)
		return nil
	})
}

func orNone(values []string) string {
	if len(values) == 0 {
		return "-"
	}
	return strings.Join(values, ", ")
}

func replicas(deployment *unstructured.Unstructured) []string {
	value, _, _ := unstructured.NestedFieldNoCopy(deployment.Object, "spec", "replicas")
	return []string{fmt.Sprint(value)}
}

func zones(deployment *unstructured.Unstructured) []string {
	terms, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "affinity", "nodeAffinity",
		"requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	var found []string
	for _, term := range members(terms) {
		expressions, _, _ := unstructured.NestedSlice(term, "matchExpressions")
		for _, expression := range members(expressions) {
			values, _, _ := unstructured.NestedStringSlice(expression, "values")
			found = append(found, values...)
		}
	}
	return found
}

func spreads(deployment *unstructured.Unstructured) []string {
	constraints, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "topologySpreadConstraints")
	found := make([]string, 0, len(constraints))
	for _, each := range members(constraints) {
		found = append(found, fmt.Sprint(each["topologyKey"]))
	}
	return found
}

func tolerations(deployment *unstructured.Unstructured) []string {
	all, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "tolerations")
	found := make([]string, 0, len(all))
	for _, each := range members(all) {
		found = append(found, fmt.Sprintf("%v for %v s", each["key"], each["tolerationSeconds"]))
	}
	return found
}

// members returns the items of a list that are objects.
func members(list []any) []map[string]any {
	var found []map[string]any
	for _, each := range list {
		if object, ok := each.(map[string]any); ok {
			found = append(found, object)
		}
	}
	return found
}
