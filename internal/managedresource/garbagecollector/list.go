package garbagecollector

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// pageSize is the maximum number of objects in a page of a list, and so in memory at the same time. All pages of one list show the cluster
// at the same resourceVersion. If the API server no longer has that version, the list fails; it is not continued at another version.
const pageSize = 500

// looks is how often the collector must list all referring objects without finding a reference before it deletes an object. Lists of
// different kinds have different resourceVersions: a reference may move from an object of a kind that is not listed yet to an object of a
// kind that was just listed. One look misses this reference, and the next look finds it.
const looks = 2

// find returns the objects without a reference. It returns an error if a list fails, because an object that is missing in the result of
// the list may reference one of the returned objects.
func (c *Collector) find(ctx context.Context) ([]candidate, error) {
	g := garbage{}
	for _, kind := range slices.Sorted(maps.Keys(collectables())) {
		options := metav1.ListOptions{LabelSelector: resourcesv1alpha1.GarbageCollectableReference + "=true"}
		now := c.Clock.Now() // before the list, so that no object becomes old enough while the list is read
		err := c.list(ctx, collectables()[kind], options, func(object *metav1.PartialObjectMetadata) {
			g.consider(kind, object, now, c.MinimumAge)
		})
		if err != nil {
			return nil, err
		}
	}
	for look := 0; look < looks && len(g) > 0; look++ {
		if err := c.spareNeeded(ctx, g); err != nil {
			return nil, err
		}
	}
	return g.sorted(), nil
}

// spareNeeded lists, once, all objects that may need a candidate, and removes the candidates that they need from g.
func (c *Collector) spareNeeded(ctx context.Context, g garbage) error {
	sets := &resourcesv1alpha1.ManagedResourceList{}
	if err := c.Sets.List(ctx, sets, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list ManagedResources of source cluster: %w", err)
	}
	same := c.SameCluster(ctx)
	for i := range sets.Items {
		g.spareSet(&sets.Items[i], same, c.Finalizer)
	}
	if err := c.spareSetsBeyond(ctx, g, same); err != nil {
		return err
	}
	for _, each := range referrers() {
		if err := c.spareReferenced(ctx, g, each); err != nil {
			return err
		}
	}
	return nil
}

// spareSetsBeyond removes from g the candidates that ManagedResources need which are in the target and not in the cache. If the target
// does not serve ManagedResources, the target contains no ManagedResources and cannot be the source.
func (c *Collector) spareSetsBeyond(ctx context.Context, g garbage, same bool) error {
	if c.SetsBeyond == nil || !same {
		return nil
	}
	err := c.eachPage(func(namespace, from string) (next string, err error) {
		sets := &resourcesv1alpha1.ManagedResourceList{}
		if err := c.SetsBeyond.List(ctx, sets, &client.ListOptions{Namespace: namespace, Limit: pageSize, Continue: from}); err != nil {
			return "", fmt.Errorf("list managedresources.%s: %w", resourcesv1alpha1.GroupName, withRemedy(err))
		}
		for i := range sets.Items {
			g.spareSet(&sets.Items[i], true, c.Finalizer)
		}
		return sets.Continue, nil
	})
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return c.unlessUnserved(resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource"), err)
	}
	return err
}

func (c *Collector) spareReferenced(ctx context.Context, g garbage, by referrer) error {
	for _, version := range by.versions {
		err := c.list(ctx, version.WithResource(by.resource), metav1.ListOptions{}, func(object *metav1.PartialObjectMetadata) {
			g.spareReferenced(object.Namespace, object.Annotations)
		})
		if !apierrors.IsNotFound(err) {
			return err
		}
		if failure := c.unlessUnserved(version.WithKind(by.kind), err); failure != nil {
			return failure
		}
	}
	return nil // the kind is not served, so no objects of it exist
}

// unlessUnserved returns the failure of a listing, or nil if a new discovery shows that the API server does not serve the kind. A 404 alone
// is not enough: it may come from a proxy, or from a server that is starting.
func (c *Collector) unlessUnserved(kind schema.GroupVersionKind, failure error) error {
	err := c.Mapper.Refresh()
	if err == nil {
		_, err = c.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	switch {
	case meta.IsNoMatchError(err):
		return nil
	case err != nil:
		err = fmt.Errorf("discover %s: %w", kind.GroupKind(), err)
	default:
		err = fmt.Errorf("the API server says that it serves %s", kind.GroupKind())
	}
	return fmt.Errorf("%w, and it is not certain that the kind is not served: %w", failure, err)
}

// eachPage reads all pages of a list: in each namespace in the field Namespaces, or once for all namespaces if this field is empty. The
// function read gets the continue token of a page, and returns the continue token of the next page.
func (c *Collector) eachPage(read func(namespace, from string) (next string, err error)) error {
	namespaces := c.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		next, err := read(namespace, "")
		for err == nil && next != "" {
			next, err = read(namespace, next)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// list passes the metadata of all objects of a kind to take, page by page.
func (c *Collector) list(ctx context.Context, resource schema.GroupVersionResource, options metav1.ListOptions,
	take func(*metav1.PartialObjectMetadata),
) error {
	options.Limit = pageSize
	return c.eachPage(func(namespace, from string) (next string, err error) {
		options.Continue = from
		list, err := c.Client.Resource(resource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return "", fmt.Errorf("list %s: %w", resource.GroupResource(), withRemedy(err))
		}
		for i := range list.Items {
			take(&list.Items[i])
		}
		return list.Continue, nil
	})
}
