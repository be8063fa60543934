package served

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	securityv1alpha1 "github.com/espalier-dev/espalier/api/security/v1alpha1"
	"github.com/espalier-dev/espalier/internal/reflector"
)

func (t *Tracker) connect() (err error) {
	source := t.clusters.Source
	cfg, httpClient := source.GetConfig(), source.GetHTTPClient()
	if t.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(cfg, httpClient); err != nil {
		return fmt.Errorf("create discovery client: %w", err)
	}
	if t.metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(cfg), httpClient); err != nil {
		return fmt.Errorf("create client for metadata: %w", err)
	}
	// This mapper does not ask the API server which kinds it serves: only the Tracker does.
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(apiregistrationv1.SchemeGroupVersion.WithKind("APIService"), meta.RESTScopeRoot)
	for _, kind := range append(Bindings(), Shoot) {
		mapper.Add(kind.version().WithKind(string(kind)), meta.RESTScopeNamespace)
	}
	t.whole, err = client.NewWithWatch(cfg, client.Options{HTTPClient: httpClient, Scheme: source.GetScheme(), Mapper: mapper})
	if err != nil {
		return fmt.Errorf("create client for whole objects: %w", err)
	}
	return nil
}

// reader returns the reader of a kind in a namespace. An empty namespace stands for all namespaces.
func (t *Tracker) reader(kind Kind, namespace string) reader {
	read := t.metadataReader(kind.Resource(), namespace)
	selection := client.ListOptions{Namespace: namespace}
	switch kind { // of these, more than metadata is needed
	case Shoot:
		read.Client = reflector.Objects(t.whole, &corev1beta1.ShootList{}, selection)
	case SecretBinding:
		read.Client = reflector.Objects(t.whole, &corev1beta1.SecretBindingList{}, selection)
	case CredentialsBinding:
		read.Client = reflector.Objects(t.whole, &securityv1alpha1.CredentialsBindingList{}, selection)
	default:
		read.onlyNeeded = kind == Secret
	}
	return read
}

func (t *Tracker) metadataReader(resource schema.GroupVersionResource, namespace string) reader {
	return reader{resource: resource.Resource, Client: reflector.Untyped(t.metadata.Resource(resource).Namespace(namespace))}
}
