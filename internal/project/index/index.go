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
	err := indexer.IndexField(ctx, &corev1beta1.Project{}, field, keys)
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

// Find returns the Project whose spec.namespace is a namespace, as the cache knows it; nil if there is none, any if there are
// several. What it returns must not be changed.
func Find(ctx context.Context, cached client.Reader, namespace string) (*corev1beta1.Project, error) {
	found, err := All(ctx, cached, namespace)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// All returns all Projects whose spec.namespace is a namespace, as the cache knows them: where no webhook prevents it, that
// may be several, of which at most one has the namespace. What it returns must not be changed.
func All(ctx context.Context, cached client.Reader, namespace string) ([]corev1beta1.Project, error) {
	if namespace == "" {
		return nil, nil
	}
	found := &corev1beta1.ProjectList{}
	if err := cached.List(ctx, found, client.MatchingFields{field: namespace}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("find Projects of namespace %q: %w", namespace, err)
	}
	return found.Items, nil
}
