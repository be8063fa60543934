package observe

import (
	"fmt"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/reflector"
)

// WholeObjects lists and watches whole objects, for kinds whose health depends on more than metadata. The store keeps only a few fields of
// each object and a verdict: see Object.
type WholeObjects struct {
	scheme  *runtime.Scheme
	typed   rest.Interface
	dynamic dynamic.Interface
}

// NewWholeObjects returns a client for the cluster that config and client reach.
func NewWholeObjects(config *rest.Config, client *http.Client) (*WholeObjects, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build scheme: %w", err)
		}
	}
	return (&WholeObjects{scheme: scheme}).With(config, client)
}

// With returns a copy that sends its requests with another client of the same cluster.
func (w *WholeObjects) With(config *rest.Config, client *http.Client) (*WholeObjects, error) {
	dynamicClient, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("create dynamic client: %w", err)
	}
	config = rest.CopyConfig(config)
	config.GroupVersion = &schema.GroupVersion{}
	config.APIPath = "/unused" // every request names its absolute path
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(w.scheme).WithoutConversion()
	typed, err := rest.RESTClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("create typed client: %w", err)
	}
	return &WholeObjects{scheme: w.scheme, typed: typed, dynamic: dynamicClient}, nil
}

// client returns the client for the objects of a kind. It decodes them into their Go type if that is known, because that is cheaper.
func (w *WholeObjects) client(resource schema.GroupVersionResource, kind schema.GroupKind, namespace string) reflector.Client {
	if w.scheme.Recognizes(kind.WithVersion(resource.Version)) {
		return w.typedCollection(resource, namespace)
	}
	return reflector.Untyped(w.dynamic.Resource(resource).Namespace(namespace))
}

// IsRegistered reports whether the Kubernetes libraries have a Go type for a kind.
func (w *WholeObjects) IsRegistered(kind schema.GroupVersionKind) bool {
	return w.scheme.Recognizes(kind)
}

// Typed returns an object as its Go type if that is known, else unchanged. It returns an error if the object does not fit its type.
func (w *WholeObjects) Typed(object *unstructured.Unstructured) (runtime.Object, error) {
	kind := object.GroupVersionKind()
	if !w.scheme.Recognizes(kind) {
		return object, nil
	}
	typed, err := w.scheme.New(kind)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", kind.Kind, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		return nil, fmt.Errorf("decode %s: %w", kind.Kind, err)
	}
	return typed, nil
}

// typedCollection returns the client for typed objects.
func (w *WholeObjects) typedCollection(resource schema.GroupVersionResource, namespace string) reflector.Client {
	path := []string{"apis", resource.Group, resource.Version}
	if resource.Group == "" {
		path = []string{"api", resource.Version}
	}
	if namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	path = append(path, resource.Resource)
	return reflector.Typed(func(options metav1.ListOptions) *rest.Request {
		return w.typed.Get().AbsPath(path...).SpecificallyVersionedParams(&options, clientgoscheme.ParameterCodec, metav1.Unversioned)
	})
}
