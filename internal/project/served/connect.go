package served

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	securityv1alpha1 "github.com/espalier-dev/espalier/api/security/v1alpha1"
	"github.com/espalier-dev/espalier/internal/reflector"
)

func apiServices() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
}

func customResourceDefinitions() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

func (t *Tracker) connect() (err error) {
	cfg, httpClient := t.clusters.Source.GetConfig(), t.clusters.Source.GetHTTPClient()
	if t.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(cfg, httpClient); err != nil {
		return fmt.Errorf("create discovery client: %w", err)
	}
	if t.dynamic, err = dynamic.NewForConfigAndClient(cfg, httpClient); err != nil {
		return fmt.Errorf("create client for APIServices: %w", err)
	}
	if t.metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(cfg), httpClient); err != nil {
		return fmt.Errorf("create client for metadata: %w", err)
	}
	codecs := serializer.NewCodecFactory(t.clusters.Source.GetScheme())
	for _, version := range versions() {
		t.typed[version], err = apiutil.RESTClientForGVK(version.WithKind(""), true, false, cfg, codecs, httpClient)
		if err != nil {
			return fmt.Errorf("create client for %s: %w", version, err)
		}
	}
	return nil
}

// reader returns the reader of a kind in a namespace. An empty namespace stands for all namespaces.
func (t *Tracker) reader(kind Kind, namespace string) reader {
	switch kind {
	case Shoot:
		return t.typedReader(kind, namespace, &corev1beta1.ShootList{})
	case SecretBinding:
		return t.typedReader(kind, namespace, &corev1beta1.SecretBindingList{})
	case CredentialsBinding:
		return t.typedReader(kind, namespace, &securityv1alpha1.CredentialsBindingList{})
	default:
		read := t.metadataReader(kind.Resource(), namespace)
		read.onlyNeeded = kind == Secret
		return read
	}
}

func (t *Tracker) metadataReader(resource schema.GroupVersionResource, namespace string) reader {
	return reader{resource: resource.Resource, Client: reflector.Metadata(t.metadata.Resource(resource).Namespace(namespace))}
}

// typedReader returns the reader of a kind of which more than metadata is needed.
func (t *Tracker) typedReader(kind Kind, namespace string, empty runtime.Object) reader {
	client, resource := t.typed[kind.version()], kind.Resource().Resource
	parameters := runtime.NewParameterCodec(t.clusters.Source.GetScheme())
	request := func(options metav1.ListOptions) *rest.Request {
		return client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).VersionedParams(&options, parameters)
	}
	return reader{resource: resource, Client: reflector.Funcs{
		ListFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := empty.DeepCopyObject()
			return list, request(options).Do(ctx).Into(list)
		},
		WatchFunc: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			options.Watch = true
			return request(options).Watch(ctx)
		},
	}}
}
