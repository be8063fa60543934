// Package index finds the Project of a namespace in the cache.
package index

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// field is the index, named like the field selector that API servers offer.
const field = "spec.namespace"

// Add makes a cache keep the index. Once for each cache.
func Add(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &corev1beta1.Project{}, field, func(object client.Object) []string { return keys(object) })
	if err != nil {
		return fmt.Errorf("index Projects by %s: %w", field, err)
	}
	return nil
}

// keys has the empty string for a Project without namespace.
func keys(object client.Object) []string {
	project, ok := object.(*corev1beta1.Project)
	if !ok {
		return nil
	}
	if project.Spec.Namespace == nil {
		return []string{""}
	}
	return []string{*project.Spec.Namespace}
}

// Find returns the Project whose spec.namespace is a namespace, as the cache knows it; nil if there is none. What it returns
// must not be changed.
func Find(ctx context.Context, cached client.Reader, namespace string) (*corev1beta1.Project, error) {
	if namespace == "" {
		return nil, nil
	}
	found := &corev1beta1.ProjectList{}
	if err := cached.List(ctx, found, client.MatchingFields{field: namespace}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("find Project of namespace %q: %w", namespace, err)
	}
	if len(found.Items) == 0 {
		return nil, nil
	}
	return &found.Items[0], nil
}
