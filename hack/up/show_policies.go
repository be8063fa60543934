package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const policiesExample = "examples/network-policies.yaml"

// showPolicies applies a Service and shows the NetworkPolicies that the controller creates for it.
func (s settings) showPolicies(ctx context.Context, r *report, w world) error {
	r.step("network policies: applying %s", policiesExample)
	objects, err := readManifests(filepath.Join(s.root, policiesExample))
	if err != nil {
		return err
	}
	err = apply(ctx, w.client, objects...)
	if err != nil {
		return err
	}
	const wanted = 5 // within the namespace, from the other namespace, and from anywhere
	var rows [][]string
	err = await(ctx, 30*time.Second, fmt.Sprintf("%d NetworkPolicies of Service stall", wanted), func(ctx context.Context) error {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("networking.k8s.io/v1")
		list.SetKind("NetworkPolicyList")
		failure := w.client.List(ctx, list, client.MatchingLabels{"networking.resources.gardener.cloud/service-name": "stall"})
		if failure != nil {
			return failure
		}
		rows = [][]string{{"NAMESPACE", "NETWORKPOLICY", "PODS"}}
		for _, policy := range list.Items {
			rows = append(rows, []string{policy.GetNamespace(), policy.GetName(), selected(policy)})
		}
		if len(list.Items) != wanted {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.table(rows)
	return nil
}

// selected describes which Pods a policy selects.
func selected(policy unstructured.Unstructured) string {
	labels, _, _ := unstructured.NestedStringMap(policy.Object, "spec", "podSelector", "matchLabels")
	pairs := make([]string, 0, len(labels))
	for key, value := range labels {
		pairs = append(pairs, key+"="+value)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}
