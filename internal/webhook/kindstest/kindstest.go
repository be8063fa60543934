// Package kindstest makes an API server of tests serve the kinds that webhook-server validates and protects.
package kindstest

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/webhook/registrations"
)

// Serve creates definitions of all kinds, which take any fields and have a status, and returns when the kinds are served.
// Definitions that exist are left as they are.
func Serve(ctx context.Context, c client.Client) error {
	for _, kind := range registrations.Kinds() {
		if err := client.IgnoreAlreadyExists(c.Create(ctx, definition(kind))); err != nil {
			return fmt.Errorf("create definition of %s: %w", kind.Plural, err)
		}
	}
	for _, kind := range registrations.Kinds() {
		list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": kind.Group + "/" + kind.Version, "kind": kind.Kind + "List"}}
		err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			return c.List(ctx, list) == nil, nil
		})
		if err != nil {
			return fmt.Errorf("wait until %s are served: %w", kind.Plural, err)
		}
	}
	return nil
}

func definition(kind registrations.Kind) *unstructured.Unstructured {
	scope := "Cluster"
	if kind.Namespaced {
		scope = "Namespaced"
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": kind.Plural + "." + kind.Group},
		"spec": map[string]any{
			"group": kind.Group, "scope": scope, "names": map[string]any{"kind": kind.Kind, "plural": kind.Plural},
			"versions": []any{map[string]any{
				"name": kind.Version, "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
}
