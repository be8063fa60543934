package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/internal/apply/fields"
	"github.com/espalier-dev/espalier/internal/health"
)

// metadataOnly asks for an object's metadata as the answer to any request. Servers that cannot do that answer with
// the whole object, which contains it.
const metadataOnly = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1," +
	"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// Mapper finds how a kind is served.
type Mapper interface {
	meta.RESTMapper
	// Reset makes the next look-up of an unknown kind ask the API server. Known kinds are answered as before.
	Reset()
	// Refresh asks the API server and waits for the answer, which replaces everything that is known.
	Refresh() error
}

// Resource is a kind as the target serves it.
type Resource struct {
	Kind       schema.GroupVersionKind
	Resource   schema.GroupVersionResource
	Namespaced bool
}

// Target reads and writes objects of one cluster.
type Target struct {
	client *rest.RESTClient
	mapper Mapper
	// slots holds a token per request that may be in flight.
	slots chan struct{}
	clock clock.PassiveClock

	// resources remembers how kinds are served: looking that up takes long compared with everything else that is done
	// for an object at rest.
	mu        sync.RWMutex
	resources map[schema.GroupVersionKind]served
}

// served is how a kind was served at a time.
type served struct {
	Resource
	at time.Time
}

// servedFor is how long a kind is believed to be served as it was.
const servedFor = time.Minute

// NewTarget returns a Target that keeps at most inFlight requests open.
func NewTarget(config *rest.Config, client *http.Client, mapper Mapper, inFlight int, passive clock.PassiveClock) (*Target, error) {
	config = metadata.ConfigFor(config)
	config.GroupVersion = &schema.GroupVersion{}
	config.APIPath = "/unused" // every request names its absolute path
	restClient, err := rest.RESTClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("create client of target cluster: %w", err)
	}
	return &Target{
		client: restClient, mapper: mapper, slots: make(chan struct{}, inFlight), clock: passive,
		resources: map[schema.GroupVersionKind]served{},
	}, nil
}

// Resource finds how a kind is served; its error satisfies meta.IsNoMatchError if it is not.
func (t *Target) Resource(kind schema.GroupVersionKind) (Resource, error) {
	// Mappers would guess a missing version, know lists, which no API server serves, and take "secret" for "Secret".
	if kind.Version == "" || !isKind(kind.GroupKind()) {
		return Resource{}, &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	}
	now := t.clock.Now()
	t.mu.RLock()
	known, found := t.resources[kind]
	t.mu.RUnlock()
	if found && now.Sub(known.at) < servedFor {
		return known.Resource, nil
	}
	mapping, err := t.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return Resource{}, err //nolint:wrapcheck // callers tell "not served" from other faults, and name the object
	}
	resource := Resource{Kind: kind, Resource: mapping.Resource, Namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace}
	t.mu.Lock()
	t.resources[kind] = served{resource, now}
	t.mu.Unlock()
	return resource, nil
}

func isKind(kind schema.GroupKind) bool {
	first, _ := utf8.DecodeRuneInString(kind.Kind)
	return unicode.IsUpper(first) && (kind.Group != "" || kind.Kind != "List")
}

// Served finds how a kind is served: in the given version if that is served, else in the version that the API server
// prefers. Its error satisfies meta.IsNoMatchError if no version is served.
func (t *Target) Served(kind schema.GroupVersionKind) (Resource, error) {
	resource, err := t.Resource(kind)
	if !meta.IsNoMatchError(err) || !isKind(kind.GroupKind()) {
		return resource, err
	}
	mapping, err := t.mapper.RESTMapping(kind.GroupKind())
	if err != nil {
		return Resource{}, err //nolint:wrapcheck // as in Resource
	}
	return Resource{Kind: mapping.GroupVersionKind, Resource: mapping.Resource, Namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace}, nil
}

// IsUnserved reports whether an answer comes from an API server that does not serve the version of the kind: an object may
// exist all the same. Such an answer satisfies apierrors.IsNotFound too.
func IsUnserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.IsUnexpectedServerError(err)
}

// ServedInstead is Served after an answer that satisfies IsUnserved: what was known of the kind does not hold any more.
func (t *Target) ServedInstead(stale Resource) (Resource, error) {
	if known, err := t.Resource(stale.Kind); err == nil && known == stale {
		if err := t.Refresh(); err != nil {
			return Resource{}, err
		}
	}
	return t.Served(stale.Kind)
}

// InServedVersion calls request with the resource of a kind. If the API server answers that it does not serve that version, it
// finds out which version is served instead, and calls request once more with that one. Its error satisfies IsGone if the object
// cannot exist, and IsUnserved if the API server goes on to refuse a version that it says it serves, which proves nothing.
func (t *Target) InServedVersion(kind schema.GroupVersionKind, request func(Resource) error) error {
	resource, err := t.Served(kind)
	if err != nil {
		return err
	}
	if err = request(resource); !IsUnserved(err) {
		return err
	}
	other, failure := t.ServedInstead(resource)
	if failure != nil {
		return failure
	}
	if other == resource {
		return err
	}
	return request(other)
}

// IsGone reports whether an error proves that an object does not exist: it was not found in a version that is served, or no
// version of its kind is served.
func IsGone(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && !IsUnserved(err)
}

// ForgetUnserved makes the next look-up of an unknown kind ask the API server again. Known kinds stay known: to look them up
// never waits for that.
func (t *Target) ForgetUnserved() { t.mapper.Reset() }

// Refresh asks the API server which kinds it serves, and waits for the answer. It is for callers that know that an answer does
// not hold any more.
func (t *Target) Refresh() error {
	if err := t.mapper.Refresh(); err != nil {
		return err //nolint:wrapcheck // it says what failed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.resources) // the mapper answers again without a request
	return nil
}

// CanExist tells whether an object of that name can exist.
func CanExist(namespace, name string) bool { return Addressable(namespace, name) == nil }

// Addressable tells whether an object of that name can exist. Anything else must not get into a path: an empty name
// addresses the whole collection, and "../" another one.
func Addressable(namespace, name string) error {
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

// acquire waits for a free slot; release must be called if it returns no error.
func (t *Target) acquire(ctx context.Context) error {
	select {
	case t.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for a free request slot: %w", context.Cause(ctx))
	}
}

func (t *Target) release() { <-t.slots }

// Get reads a whole object.
func (t *Target) Get(ctx context.Context, r Resource, namespace, name string) (*unstructured.Unstructured, error) {
	return t.whole(ctx, t.client.Get().AbsPath(r.path(namespace, name)...))
}

// whole sends a request and reads the object in the answer.
func (t *Target) whole(ctx context.Context, request *rest.Request) (*unstructured.Unstructured, error) {
	if err := t.acquire(ctx); err != nil {
		return nil, err
	}
	defer t.release()
	raw, err := body(request.SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx))
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(raw, &object.Object); err != nil {
		return nil, fmt.Errorf("decode answer: %w", err)
	}
	return object, nil
}

// body returns the answer as it is. Only Error decodes what the API server says about a failure.
func body(result rest.Result) ([]byte, error) {
	if err := result.Error(); err != nil {
		return nil, err //nolint:wrapcheck // API status errors pass as they are, callers name the object
	}
	return result.Raw() //nolint:wrapcheck // there is no error left
}

// GetMetadata reads an object's metadata.
func (t *Target) GetMetadata(ctx context.Context, r Resource, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	return t.do(ctx, t.client.Get().AbsPath(r.path(namespace, name)...))
}

// Create writes a new object and returns it as stored: the whole object if its kind has a health rule, else its metadata.
func (t *Target) Create(ctx context.Context, r Resource, object *unstructured.Unstructured) (metav1.Object, error) {
	return t.write(ctx, r, t.client.Post().AbsPath(r.path(object.GetNamespace())...), object)
}

// Update replaces an object and returns it as stored: the whole object if its kind has a health rule, else its metadata.
func (t *Target) Update(ctx context.Context, r Resource, object *unstructured.Unstructured) (metav1.Object, error) {
	return t.write(ctx, r, t.client.Put().AbsPath(r.path(object.GetNamespace(), object.GetName())...), object)
}

func (t *Target) write(ctx context.Context, r Resource, request *rest.Request, object *unstructured.Unstructured) (metav1.Object, error) {
	body, err := json.Marshal(object.Object)
	if err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	request = request.SetHeader("Content-Type", runtime.ContentTypeJSON).Param("fieldManager", fields.Manager).Body(body)
	if health.HasRule(r.Kind.GroupKind()) { // so that it can be judged without waiting for a watch
		whole, failure := t.whole(ctx, request)
		if failure != nil {
			return nil, failure
		}
		return whole, nil
	}
	stored, err := t.do(ctx, request)
	if err != nil {
		return nil, err
	}
	return stored, nil
}

// MergePatch patches an object and returns its metadata. Subresource may be empty.
func (t *Target) MergePatch(ctx context.Context, r Resource, namespace, name string, patch map[string]any) (*metav1.PartialObjectMetadata, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	return t.do(ctx, t.client.Patch(types.MergePatchType).AbsPath(r.path(namespace, name)...).Param("fieldManager", fields.Manager).Body(body))
}

// Finalize empties the finalizers of a namespace through its own subresource.
func (t *Target) Finalize(ctx context.Context, r Resource, namespace *unstructured.Unstructured) error {
	_, err := t.write(ctx, r, t.client.Put().AbsPath(r.path("", namespace.GetName(), "finalize")...), namespace)
	return err
}

// Delete requests the deletion of an object and tells whether it is gone already: the answer then does not say since
// when it is being deleted.
func (t *Target) Delete(ctx context.Context, r Resource, namespace, name string, options metav1.DeleteOptions) (bool, error) {
	answer, err := t.remove(ctx, t.client.Delete().AbsPath(r.path(namespace, name)...), options)
	return err == nil && answer.DeletionTimestamp == nil, err
}

// DeleteCollection requests the deletion of all objects of a kind in a namespace that a label selector matches. The
// answer, a list of them, is not looked at: API servers refuse to reduce it to metadata.
func (t *Target) DeleteCollection(ctx context.Context, r Resource, namespace, selector string, options metav1.DeleteOptions) error {
	request, err := withOptions(t.client.Delete().AbsPath(r.path(namespace)...).Param("labelSelector", selector), options)
	if err != nil {
		return err
	}
	if err := t.acquire(ctx); err != nil {
		return err
	}
	defer t.release()
	return request.SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Error() //nolint:wrapcheck // as in Get
}

func (t *Target) remove(ctx context.Context, request *rest.Request, options metav1.DeleteOptions) (*metav1.PartialObjectMetadata, error) {
	request, err := withOptions(request, options)
	if err != nil {
		return nil, err
	}
	return t.do(ctx, request)
}

func withOptions(request *rest.Request, options metav1.DeleteOptions) (*rest.Request, error) {
	options.APIVersion, options.Kind = "v1", "DeleteOptions"
	body, err := json.Marshal(options)
	if err != nil {
		return nil, fmt.Errorf("encode delete options: %w", err)
	}
	return request.SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body), nil
}

// Count tells how many objects of a kind in a namespace a label selector matches.
func (t *Target) Count(ctx context.Context, r Resource, namespace, selector string) (int, error) {
	if err := t.acquire(ctx); err != nil {
		return 0, err
	}
	defer t.release()
	raw, err := body(t.client.Get().AbsPath(r.path(namespace)...).Param("labelSelector", selector).SetHeader("Accept", "application/json").Do(ctx))
	if err != nil {
		return 0, err
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return 0, fmt.Errorf("decode answer: %w", err)
	}
	return len(list.Items), nil
}

// do sends a request and reads the metadata of the object in the answer, if it holds one.
func (t *Target) do(ctx context.Context, request *rest.Request) (*metav1.PartialObjectMetadata, error) {
	if err := t.acquire(ctx); err != nil {
		return nil, err
	}
	defer t.release()
	result := request.SetHeader("Accept", metadataOnly).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err //nolint:wrapcheck // as in Get
	}
	answer, err := result.Get()
	if err == nil {
		if object, ok := answer.(*metav1.PartialObjectMetadata); ok {
			return object, nil
		}
		return &metav1.PartialObjectMetadata{}, nil // a Status: the object is gone
	}
	if !runtime.IsNotRegisteredError(err) {
		return nil, fmt.Errorf("decode answer: %w", err)
	}
	raw, err := result.Raw()
	if err != nil {
		return nil, err //nolint:wrapcheck // as in Get
	}
	object := &metav1.PartialObjectMetadata{}
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(object); err != nil {
		return nil, fmt.Errorf("decode answer: %w", err)
	}
	return object, nil
}
