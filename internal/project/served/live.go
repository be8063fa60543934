package served

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// HasShoot asks the API server, not a cache, whether there is a Shoot in a namespace. It returns false without an error if Shoots are
// certainly not served, and an error if that is unknown.
func (t *Tracker) HasShoot(ctx context.Context, namespace string) (bool, error) {
	found, err := t.hasFirst(ctx, Shoot.Resource(), namespace)
	if apierrors.IsNotFound(err) && t.Finding(Shoot).State == Absent {
		return false, nil
	}
	return found, err
}

// HasObject asks the API server whether there is an object of a resource in a namespace. Use it only for resources that are none of the
// kinds of this package. HasObject returns false without an error if the API server says that it has no such resource.
func (t *Tracker) HasObject(ctx context.Context, resource schema.GroupVersionResource, namespace string) (bool, error) {
	found, err := t.hasFirst(ctx, resource, namespace)
	if !apierrors.IsNotFound(err) {
		return found, err
	}
	resources, problem := t.resources(ctx, resource.GroupVersion())
	if problem != nil {
		return false, problem
	}
	if slices.ContainsFunc(resources, func(each metav1.APIResource) bool { return each.Name == resource.Resource }) {
		return false, err
	}
	return false, nil
}

func (t *Tracker) hasFirst(ctx context.Context, resource schema.GroupVersionResource, namespace string) (bool, error) {
	list, err := t.metadata.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return false, fmt.Errorf("list %s in namespace %q: %w", resource.GroupResource(), namespace, err)
	}
	return len(list.Items) > 0, nil
}
