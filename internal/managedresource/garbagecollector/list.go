package garbagecollector

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// pageSize is how many objects are in memory at a time. Pages of one listing show the cluster at one moment; a listing
// that takes so long that the API server forgets that moment fails, and is not continued at another one.
const pageSize = 500

// looks is how often all referrers must have been seen without a reference before an object is deleted. Listings of
// different kinds are not of one moment: a reference that moves from a kind that is not listed yet to one that was
// listed just now is missed by one look, and seen by the next.
const looks = 2

// find lists what nobody needs. Any doubt is an error.
func (c *Collector) find(ctx context.Context) ([]candidate, error) {
	g := garbage{}
	for _, each := range collectables() {
		options := metav1.ListOptions{LabelSelector: resourcesv1alpha1.GarbageCollectableReference + "=true"}
		now := c.Clock.Now() // before the listing, so that nothing gets older by waiting for it
		err := c.list(ctx, each.resource, options, func(object *metav1.PartialObjectMetadata) { g.consider(each.kind, object, now, c.MinimumAge) })
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

// spareNeeded looks once at everybody who may need something.
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

// spareSetsBeyond looks at the sets that other controllers of the cluster read from Secrets.
func (c *Collector) spareSetsBeyond(ctx context.Context, g garbage, same bool) error {
	if c.SetsBeyond == nil || !same {
		return nil
	}
	for _, namespace := range c.namespaces() {
		page := &client.ListOptions{Namespace: namespace, Limit: pageSize}
		for {
			sets := &resourcesv1alpha1.ManagedResourceList{}
			if err := c.SetsBeyond.List(ctx, sets, page); err != nil {
				return fmt.Errorf("list managedresources.%s: %w", resourcesv1alpha1.GroupName, withRemedy(err))
			}
			for i := range sets.Items {
				g.spareSet(&sets.Items[i], true, c.Finalizer)
			}
			if page.Continue = sets.Continue; page.Continue == "" {
				break
			}
		}
	}
	return nil
}

func (c *Collector) spareReferenced(ctx context.Context, g garbage, by referrer) error {
	for _, version := range by.versions {
		err := c.list(ctx, version.WithResource(by.resource), metav1.ListOptions{}, func(object *metav1.PartialObjectMetadata) {
			g.spareReferenced(object.Namespace, object.Annotations)
		})
		if !apierrors.IsNotFound(err) {
			return err
		}
		if mappingErr := c.unserved(version.WithKind(by.kind)); mappingErr != nil {
			return fmt.Errorf("%w, and it is not certain that the kind is not served: %w", err, mappingErr)
		}
	}
	return nil // there cannot be any
}

// unserved returns an error unless the API server, asked anew, tells that it does not know a kind. That a path is not
// found alone may be the word of whoever stands in between, or of a server that is about to start.
func (c *Collector) unserved(kind schema.GroupVersionKind) error {
	c.Mapper.Reset()
	_, err := c.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	switch {
	case meta.IsNoMatchError(err):
		return nil
	case err != nil:
		return fmt.Errorf("discover %s: %w", kind.GroupKind(), err)
	}
	return fmt.Errorf("the API server says that it serves %s", kind.GroupKind())
}

// namespaces lists where to look, as requests name it.
func (c *Collector) namespaces() []string {
	if len(c.Namespaces) == 0 {
		return []string{metav1.NamespaceAll}
	}
	return c.Namespaces
}

// list hands over the metadata of all objects of a kind, page by page.
func (c *Collector) list(ctx context.Context, resource schema.GroupVersionResource, options metav1.ListOptions, take func(*metav1.PartialObjectMetadata)) error {
	for _, namespace := range c.namespaces() {
		page := options
		page.Limit = pageSize
		for {
			list, err := c.Client.Resource(resource).Namespace(namespace).List(ctx, page)
			if err != nil {
				return fmt.Errorf("list %s: %w", resource.GroupResource(), withRemedy(err))
			}
			for i := range list.Items {
				take(&list.Items[i])
			}
			if page.Continue = list.Continue; page.Continue == "" {
				break
			}
		}
	}
	return nil
}
