// Package index finds the Project of a namespace in the cache.
package index

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// field is the name of the index, which equals the field selector of API servers.
const field = "spec.namespace"

// Add adds the index to a cache. Call it once for each cache.
func Add(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &corev1beta1.Project{}, field, keys)
	if err != nil {
		return fmt.Errorf("index Projects by %s: %w", field, err)
	}
	return nil
}

// keys returns the empty string for a Project without a namespace.
func keys(object client.Object) []string {
	project, ok := object.(*corev1beta1.Project)
	if !ok {
		return nil
	}
	return []string{ptr.Deref(project.Spec.Namespace, "")}
}

// Find returns a Project whose spec.namespace is the given namespace, from the cache; nil if there is none. If there are several, it
// returns any of them. The caller must not change it.
func Find(ctx context.Context, cached client.Reader, namespace string) (*corev1beta1.Project, error) {
	found, err := All(ctx, cached, namespace)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// All returns all Projects whose spec.namespace is the given namespace, from the cache. If the webhook that prevents such conflicts is
// missing, there may be several Projects; at most one of them owns the namespace. The caller must not change the Projects.
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
