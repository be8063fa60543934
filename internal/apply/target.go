// Package apply sends requests to the target cluster. It maps kinds to resources, reads and writes single objects, requests only metadata
// where the caller does not need the whole object, and bounds the number of requests in flight.
//
// The pure packages manifest, inventory, merge and fields compute the objects to write. Package observe caches the state of the objects
// that are in the cluster.
package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/internal/apply/fields"
	"github.com/espalier-dev/espalier/internal/health"
)

// metadataListOnly is an Accept header that requests only the metadata of the objects in a list. API servers that do not support this send
// whole objects, which contain their metadata.
const metadataListOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// pageSize is how many objects a page of a list has.
const pageSize = 250

// metadataOnly is an Accept header that requests only the metadata of the object in the answer. API servers that do not support this send
// the whole object, which contains its metadata.
const metadataOnly = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1," +
	"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// Mapper finds the resource that serves a kind.
type Mapper interface {
	meta.RESTMapper
	// Names reports whether the API server listed a kind in the last discovery, or might have listed it but did not answer for its group. The
	// other methods of a RESTMapper also guess resources for kinds that no API server serves, such as PodList and pod.
	Names(kind schema.GroupVersionKind) bool
	// Reset makes the next look-up of an unknown kind ask the API server. Look-ups of known kinds are still answered from memory.
	Reset()
	// Refresh asks the API server which kinds it serves and waits for the answer, which replaces all known kinds.
	Refresh() error
}

// Resource is the API resource, such as "deployments", under which the target cluster serves a kind.
type Resource struct {
	Kind       schema.GroupVersionKind
	Resource   schema.GroupVersionResource
	Namespaced bool
}

// Target reads and writes objects of one cluster.
type Target struct {
	client *rest.RESTClient
	mapper Mapper
	// user is the user with whose rights requests are sent; "" means the user of client.
	user string
	// slots contains one value for each request that has no answer yet. Its capacity is the limit of such requests.
	slots chan struct{}
	// resources caches the answers of mapper by kind, and the answers of ReplicasPath. Without this cache, the look-up in mapper would take
	// most of the time that an unchanged object costs.
	resources *cache.LRUExpireCache
}

const (
	// resourceTTL is how long a cached Resource is valid.
	resourceTTL = time.Minute
	// maxResources is how many entries resources may have: more than a cluster has kinds.
	maxResources = 10_000
)

// NewTarget returns a Target that keeps at most inFlight requests open.
func NewTarget(config *rest.Config, client *http.Client, mapper Mapper, inFlight int, passive clock.PassiveClock) (*Target, error) {
	config = metadata.ConfigFor(config)
	config.GroupVersion = &schema.GroupVersion{}
	config.APIPath = "/unused" // required, but not used: every request has an absolute path
	restClient, err := rest.RESTClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("create client of target cluster: %w", err)
	}
	return &Target{
		client: restClient, mapper: mapper, slots: make(chan struct{}, inFlight),
		resources: cache.NewLRUExpireCacheWithClock(maxResources, passive),
	}, nil
}

// As returns a Target that sends requests with the rights of another user, and shares everything else with t. If user is "", it returns t.
// The API server adds the groups of a ServiceAccount, so that the right to impersonate ServiceAccounts suffices.
func (t *Target) As(user string) *Target {
	if user == "" {
		return t
	}
	as := *t
	as.user = user
	return &as
}

// IsImpersonated reports whether requests are sent with the rights of another user. Watches may then have shown the caller objects that
// this user may not read.
func (t *Target) IsImpersonated() bool { return t.user != "" }

// Resource returns the resource that serves a kind. Its error satisfies meta.IsNoMatchError if the kind is not served.
func (t *Target) Resource(kind schema.GroupVersionKind) (Resource, error) {
	if kind.Version == "" { // a mapper would choose a version
		return Resource{}, &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	}
	found, _ := t.resources.Get(kind)
	if known, cached := found.(Resource); cached {
		return known, nil
	}
	resource, err := t.lookup(kind.GroupKind(), kind.Version)
	if err != nil {
		return Resource{}, err
	}
	t.resources.Add(kind, resource, resourceTTL)
	return resource, nil
}

// lookup returns the resource that serves a kind, in the given version or in the one that the API server prefers. Callers distinguish "not
// served" from other errors, and add the name of the object.
func (t *Target) lookup(kind schema.GroupKind, versions ...string) (Resource, error) {
	mapping, err := t.mapper.RESTMapping(kind, versions...)
	if err != nil {
		return Resource{}, err
	}
	if !t.mapper.Names(mapping.GroupVersionKind) {
		return Resource{}, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return resourceOf(mapping), nil
}

// Served returns the resource that serves a kind: in the given version if that is served, else in the version that the API server prefers.
// Its error satisfies meta.IsNoMatchError if no version is served.
func (t *Target) Served(kind schema.GroupVersionKind) (Resource, error) {
	resource, err := t.Resource(kind)
	if !meta.IsNoMatchError(err) {
		return resource, err
	}
	return t.lookup(kind.GroupKind())
}

func resourceOf(mapping *meta.RESTMapping) Resource {
	return Resource{
		Kind: mapping.GroupVersionKind, Resource: mapping.Resource, Namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace,
	}
}

// IsUnserved reports whether an answer comes from an API server that does not serve the version of the kind. The object may exist
// nevertheless. Such an answer satisfies apierrors.IsNotFound too.
func IsUnserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.IsUnexpectedServerError(err)
}

// servedAfterRefresh does the same as Served, after an answer that satisfies IsUnserved. If the stale resource is still in the cache,
// servedAfterRefresh first asks the API server which kinds it serves.
func (t *Target) servedAfterRefresh(stale Resource) (Resource, error) {
	if known, err := t.Resource(stale.Kind); err == nil && known == stale {
		if err := t.Refresh(); err != nil {
			return Resource{}, err
		}
	}
	return t.Served(stale.Kind)
}

// InServedVersion calls request with the resource of a kind. If the API server answers that it does not serve that version,
// InServedVersion looks up a served version. If this is another version, InServedVersion calls request once more with it. The returned
// error satisfies IsGone if the object cannot exist. It satisfies IsUnserved if the API server refuses a version that it claims to serve;
// then the object may exist.
func (t *Target) InServedVersion(kind schema.GroupVersionKind, request func(Resource) error) error {
	resource, err := t.Served(kind)
	if err != nil {
		return err
	}
	if err = request(resource); !IsUnserved(err) {
		return err
	}
	other, failure := t.servedAfterRefresh(resource)
	if failure != nil {
		return failure
	}
	if other == resource {
		return err
	}
	return request(other)
}

// IsGone reports whether an error proves that an object does not exist: it was not found in a version that is served, or no version of its
// kind is served.
func IsGone(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && !IsUnserved(err)
}

// ForgetUnserved makes the next look-up of an unknown kind ask the API server again. Known kinds stay known: their look-ups do not wait for
// that request.
func (t *Target) ForgetUnserved() { t.mapper.Reset() }

// DefinitionKind is the kind CustomResourceDefinition. Other groups may have a kind of the same name.
var DefinitionKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// definitions is the resource of CustomResourceDefinitions.
var definitions = Resource{
	Kind:     DefinitionKind.WithVersion("v1"),
	Resource: schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
}

// replicasKey is the key under which the cache Target.resources has the result of ReplicasPath for a kind.
type replicasKey struct{ kind schema.GroupVersionKind }

// ReplicasPath returns the path of the number of replicas in objects of a custom kind, which the CustomResourceDefinition specifies for the
// scale subresource. It returns nil if there is no such definition or subresource, or if Espalier has no permission to read the definition.
// It always reads with the rights of the controller, because the result is cached for all users.
func (t *Target) ReplicasPath(ctx context.Context, r Resource) ([]string, error) {
	found, _ := t.resources.Get(replicasKey{r.Kind})
	if known, cached := found.([]string); cached {
		return known, nil
	}
	own := *t
	own.user = ""
	definition, err := own.Get(ctx, definitions, "", r.Resource.GroupResource().String())
	var path []string
	switch {
	case err == nil:
		path = replicasPath(definition, r.Kind.Version)
	case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
		return nil, fmt.Errorf("read definition of %s: %w", r.Kind.Kind, err)
	}
	t.resources.Add(replicasKey{r.Kind}, path, resourceTTL)
	return path, nil
}

func replicasPath(definition *unstructured.Unstructured, version string) []string {
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, each := range versions {
		fields, _ := each.(map[string]any)
		if fields["name"] != version {
			continue
		}
		// the API server accepts simple paths such as ".spec.replicas" only
		if path, _, _ := unstructured.NestedString(fields, "subresources", "scale", "specReplicasPath"); path != "" {
			return strings.Split(strings.TrimPrefix(path, "."), ".")
		}
	}
	return nil
}

// Refresh asks the API server which kinds it serves, and waits for the answer. It is for callers that know that a cached answer is
// outdated.
func (t *Target) Refresh() error {
	if err := t.mapper.Refresh(); err != nil {
		return err
	}
	t.resources.RemoveAll(func(any) bool { return true }) // the mapper now answers without a request
	return nil
}

// CanExist reports whether an object can have this namespace and name.
func CanExist(namespace, name string) bool { return CheckName(namespace, name) == nil }

// CheckName returns an error if no object can have this namespace and name. Such a name must not become part of a path: an empty name
// addresses the whole collection, and "../" another collection.
func CheckName(namespace, name string) error {
	if name == "" {
		return errors.New("metadata.name is required")
	}
	if problems := content.IsPathSegmentName(name); len(problems) > 0 {
		return fmt.Errorf("metadata.name %q is invalid: %s", name, strings.Join(problems, ", "))
	}
	if problems := content.IsPathSegmentName(namespace); len(problems) > 0 {
		return fmt.Errorf("metadata.namespace %q is invalid: %s", namespace, strings.Join(problems, ", "))
	}
	return nil
}

func (r Resource) path(namespace string, name ...string) []string {
	segments := []string{"apis", r.Resource.Group, r.Resource.Version}
	if r.Resource.Group == "" {
		segments = []string{"api", r.Resource.Version}
	}
	if r.Namespaced {
		segments = append(segments, "namespaces", namespace)
	}
	return append(append(segments, r.Resource.Resource), name...)
}

// Get reads a whole object.
func (t *Target) Get(ctx context.Context, r Resource, namespace, name string) (*unstructured.Unstructured, error) {
	return t.sendForObject(ctx, t.client.Get().AbsPath(r.path(namespace, name)...))
}

// GetMetadata reads an object's metadata.
func (t *Target) GetMetadata(ctx context.Context, r Resource, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	return t.sendForMetadata(ctx, t.client.Get().AbsPath(r.path(namespace, name)...))
}

// Writer writes single objects. Target and DryRun implement it: a Target changes its cluster, and a DryRun changes nothing.
type Writer interface {
	// Create writes a new object and returns the stored object. A Target returns the whole object if its kind has a health rule, else only the
	// metadata. A DryRun always returns the whole object.
	Create(ctx context.Context, r Resource, object *unstructured.Unstructured) (metav1.Object, error)
	// Update replaces an object. It returns the same as Create.
	Update(ctx context.Context, r Resource, object *unstructured.Unstructured) (metav1.Object, error)
	// MergePatch applies a JSON merge patch to an object. A DryRun sends no request for it.
	MergePatch(ctx context.Context, r Resource, namespace, name string, patch map[string]any) error
}

// Create implements Writer.
func (t *Target) Create(ctx context.Context, r Resource, object *unstructured.Unstructured) (metav1.Object, error) {
	return t.write(ctx, r, t.client.Post().AbsPath(r.path(object.GetNamespace())...), object, false)
}

// Update implements Writer.
func (t *Target) Update(ctx context.Context, r Resource, object *unstructured.Unstructured) (metav1.Object, error) {
	return t.write(ctx, r, t.client.Put().AbsPath(r.path(object.GetNamespace(), object.GetName())...), object, false)
}

// MergePatch implements Writer.
func (t *Target) MergePatch(ctx context.Context, r Resource, namespace, name string, patch map[string]any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	request := t.client.Patch(types.MergePatchType).AbsPath(r.path(namespace, name)...).Param("fieldManager", fields.Manager)
	_, err = t.sendForMetadata(ctx, request.Body(body))
	return err
}

// DryRun is the Writer for plans. For Create and Update, the API server does everything, admission included, except store the object; the
// answer is the whole object that would be stored. MergePatch sends no request.
type DryRun struct{ Target *Target }

// Create implements Writer.
func (d DryRun) Create(ctx context.Context, r Resource, object *unstructured.Unstructured) (metav1.Object, error) {
	return d.Target.write(ctx, r, d.Target.client.Post().AbsPath(r.path(object.GetNamespace())...), object, true)
}

// Update implements Writer.
func (d DryRun) Update(ctx context.Context, r Resource, object *unstructured.Unstructured) (metav1.Object, error) {
	return d.Target.write(ctx, r, d.Target.client.Put().AbsPath(r.path(object.GetNamespace(), object.GetName())...), object, true)
}

// MergePatch implements Writer.
func (DryRun) MergePatch(context.Context, Resource, string, string, map[string]any) error { return nil }

func (t *Target) write(
	ctx context.Context, r Resource, request *rest.Request, object *unstructured.Unstructured, dryRun bool,
) (metav1.Object, error) {
	body, err := json.Marshal(object.Object)
	if err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	request = request.SetHeader("Content-Type", runtime.ContentTypeJSON).Param("fieldManager", fields.Manager).Body(body)
	if dryRun {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	if dryRun || health.HasRule(r.Kind.GroupKind()) { // so that the caller can check its health without waiting for a watch
		whole, failure := t.sendForObject(ctx, request)
		if failure != nil {
			return nil, failure
		}
		return whole, nil
	}
	stored, err := t.sendForMetadata(ctx, request)
	if err != nil {
		return nil, err
	}
	return stored, nil
}

// Finalize writes the finalizers of a namespace's spec through the finalize subresource.
func (t *Target) Finalize(ctx context.Context, r Resource, namespace *unstructured.Unstructured) error {
	_, err := t.write(ctx, r, t.client.Put().AbsPath(r.path("", namespace.GetName(), "finalize")...), namespace, false)
	return err
}

// Delete requests the deletion of an object and reports whether the object no longer exists, which is the case if the answer has no
// deletionTimestamp.
func (t *Target) Delete(ctx context.Context, r Resource, namespace, name string, options metav1.DeleteOptions) (bool, error) {
	answer, err := t.sendForMetadata(ctx, withOptions(t.client.Delete().AbsPath(r.path(namespace, name)...), options))
	return err == nil && answer.DeletionTimestamp == nil, err
}

// DeleteCollection requests the deletion of all objects of a kind in a namespace that match a label selector. It ignores the answer, which
// lists all these objects, because API servers refuse to reduce that list to metadata.
func (t *Target) DeleteCollection(ctx context.Context, r Resource, namespace, selector string, options metav1.DeleteOptions) error {
	request := t.client.Delete().AbsPath(r.path(namespace)...).Param("labelSelector", selector)
	return t.sendForJSON(ctx, withOptions(request, options), nil)
}

func withOptions(request *rest.Request, options metav1.DeleteOptions) *rest.Request {
	options.APIVersion, options.Kind = "v1", "DeleteOptions"
	body, _ := json.Marshal(options) // the type has no value that JSON cannot express
	return request.SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body)
}

// Count returns the number of objects of a kind in a namespace that a label selector matches.
func (t *Target) Count(ctx context.Context, r Resource, namespace, selector string) (int, error) {
	count := 0
	_, err := t.find(ctx, r, namespace, selector, func(metav1.Object) bool {
		count++
		return false
	})
	return count, err
}

// TryList sends a request to list the objects of a kind in a namespace, and returns its error: nil if the user has the right. The API
// server answers from its cache, and with an empty list, because no object satisfies the selector.
func (t *Target) TryList(ctx context.Context, r Resource, namespace string) error {
	request := t.client.Get().AbsPath(r.path(namespace)...).Param("resourceVersion", "0").Param("labelSelector", "none,!none")
	return t.sendForJSONAs(ctx, request, metadataListOnly, nil)
}

// HasObject reports whether an object of a kind, in any namespace, satisfies a condition. It stops to read at the first such object.
func (t *Target) HasObject(ctx context.Context, r Resource, matches func(metav1.Object) bool) (bool, error) {
	r.Namespaced = false // the path without a namespace is the path of the objects in all namespaces
	return t.find(ctx, r, "", "", matches)
}

// find reads the metadata of objects page by page, until one satisfies a condition, and reports whether one does.
func (t *Target) find(ctx context.Context, r Resource, namespace, selector string, matches func(metav1.Object) bool) (bool, error) {
	for next := ""; ; {
		request := t.client.Get().AbsPath(r.path(namespace)...).Param("limit", strconv.Itoa(pageSize))
		if selector != "" {
			request = request.Param("labelSelector", selector)
		}
		if next != "" {
			request = request.Param("continue", next)
		}
		var page metav1.PartialObjectMetadataList
		if err := t.sendForJSONAs(ctx, request, metadataListOnly, &page); err != nil {
			return false, err
		}
		for i := range page.Items {
			if matches(&page.Items[i]) {
				return true, nil
			}
		}
		if next = page.Continue; next == "" {
			return false, nil
		}
	}
}

// sendForObject sends a request and returns the whole object in the answer.
func (t *Target) sendForObject(ctx context.Context, request *rest.Request) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := t.sendForJSON(ctx, request, &object.Object); err != nil {
		return nil, err
	}
	return object, nil
}

// sendForJSON sends a request and decodes the answer, unless into is nil. API status errors stay unwrapped; callers add the name of the
// object.
func (t *Target) sendForJSON(ctx context.Context, request *rest.Request, into any) error {
	return t.sendForJSONAs(ctx, request, runtime.ContentTypeJSON, into)
}

// sendForJSONAs is sendForJSON with an Accept header that requests a form of JSON.
func (t *Target) sendForJSONAs(ctx context.Context, request *rest.Request, accept string, into any) error {
	result, err := t.send(ctx, request, accept)
	if err != nil || into == nil {
		return err
	}
	raw, err := result.Raw()
	if err != nil {
		return err
	}
	if err := utiljson.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	return nil
}

// sendForMetadata sends a request and returns the metadata of the object in the answer, empty if the answer has none.
func (t *Target) sendForMetadata(ctx context.Context, request *rest.Request) (*metav1.PartialObjectMetadata, error) {
	result, err := t.send(ctx, request, metadataOnly)
	if err != nil {
		return nil, err
	}
	answer, err := result.Get()
	if err == nil {
		if object, ok := answer.(*metav1.PartialObjectMetadata); ok {
			return object, nil
		}
		return &metav1.PartialObjectMetadata{}, nil // a Status: the object no longer exists
	}
	if !runtime.IsNotRegisteredError(err) {
		return nil, fmt.Errorf("decode answer: %w", err)
	}
	raw, err := result.Raw()
	if err != nil {
		return nil, err
	}
	object := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(raw, object); err != nil {
		return nil, fmt.Errorf("decode answer: %w", err)
	}
	return object, nil
}

// send sends a request as soon as a slot is free, and returns the answer in one of the formats that the Accept header lists.
func (t *Target) send(ctx context.Context, request *rest.Request, accept string) (rest.Result, error) {
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		return rest.Result{}, fmt.Errorf("wait for a free request slot: %w", context.Cause(ctx))
	}
	if t.user != "" {
		request = request.SetHeader(transport.ImpersonateUserHeader, t.user)
	}
	result := request.SetHeader("Accept", accept).Do(ctx)
	return result, result.Error() // only Error decodes the API server's description of a failure
}
