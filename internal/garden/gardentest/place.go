// Package gardentest installs definitions in an API server, and creates namespaces and clients, for tests that run a reconciler of the
// garden-operator in their own process. It imports no controller.
package gardentest

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/test/binary"
)

// Place is an API server without controllers that serves Gardens, with a namespace that stands for the garden namespace.
type Place struct {
	*WithT
	T   *testing.T
	Ctx context.Context //nolint:containedctx // it is the context of the test, which a Place does not outlive
	// Admin is a client of an administrator without a cache.
	Admin client.Client
	// Operator is a client with the rights of the operator and without a cache. Config is the configuration of this client. Requests records
	// the requests of all clients with this configuration.
	Operator client.Client
	Config   *rest.Config
	Requests *binary.Requests
	// Namespace has the ServiceAccount of the operator, which has the rights here that it has in the garden namespace.
	Namespace string
}

// New installs the definition of Gardens and the objects in further files on a server, and creates the namespace.
func New(t *testing.T, server *rest.Config, prefix string, files ...string) *Place {
	t.Helper()
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, operatorv1alpha1.AddToScheme, resourcesv1alpha1.AddToScheme,
	} {
		g.Expect(add(scheme)).To(Succeed())
	}
	p := &Place{WithT: g, T: t, Ctx: t.Context(), Requests: &binary.Requests{}}
	var err error
	p.Admin, err = client.New(server, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = binary.Install(p.Ctx, p.Admin, append(files, "deploy/garden-operator/crds/*.yaml")...)
	g.Expect(err).NotTo(HaveOccurred())
	p.AwaitServed(&operatorv1alpha1.GardenList{})
	p.Namespace = p.NewNamespace(prefix)
	p.Config, err = binary.ConfigIn(p.Ctx, p.Admin, server, "garden-operator", p.Namespace,
		client.ObjectKey{Namespace: "garden", Name: "espalier-garden-operator-garden"}, p.Requests)
	g.Expect(err).NotTo(HaveOccurred())
	p.Operator, err = client.New(p.Config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	return p
}

// NewNamespace creates a namespace with a generated name.
func (p *Place) NewNamespace(prefix string) string {
	p.T.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	p.Expect(p.Admin.Create(p.Ctx, namespace)).To(Succeed())
	return namespace.Name
}

// AwaitServed waits until the API server serves the kinds of lists.
func (p *Place) AwaitServed(lists ...client.ObjectList) {
	p.T.Helper()
	for _, list := range lists {
		p.Eventually(func() error { return p.Admin.List(p.Ctx, list) }, binary.Patience).Should(Succeed())
	}
}

// List returns an empty list for objects of a kind that has no type in the scheme.
func List(apiVersion, kind string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(apiVersion)
	list.SetKind(kind + "List")
	return list
}

// CreateGarden creates a Garden with settings of kube-apiserver in YAML. It is deleted when the test ends.
func (p *Place) CreateGarden(kubeAPIServer string) *operatorv1alpha1.Garden {
	p.T.Helper()
	garden := &operatorv1alpha1.Garden{}
	p.Expect(yaml.UnmarshalStrict([]byte(`
metadata: {generateName: garden-}
spec:
  runtimeCluster:
    ingress: {domains: [{name: ingress.example.com}], controller: {kind: nginx}}
    networking: {pods: [10.2.0.0/16], services: [10.3.0.0/16]}
    provider: {}
  virtualCluster:
    dns: {domains: [{name: example.com}]}
    gardener: {clusterIdentity: garden-1}
    kubernetes: {version: 1.36.1, kubeAPIServer: `+kubeAPIServer+`}
    maintenance: {timeWindow: {begin: 220000+0100, end: 230000+0100}}
    networking: {services: [100.64.0.0/13]}
`), garden)).To(Succeed())
	p.Expect(p.Admin.Create(p.Ctx, garden)).To(Succeed())
	p.DeleteAtEnd(garden)
	return garden
}

// DeleteAtEnd deletes an object when the test ends, even if it has finalizers.
func (p *Place) DeleteAtEnd(o client.Object) {
	p.T.Cleanup(func() { p.Expect(Erase(context.WithoutCancel(p.Ctx), p.Admin, o)).To(Succeed()) })
}

// Erase deletes an object if it exists, even if it has finalizers.
func Erase(ctx context.Context, c client.Writer, o client.Object) error {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := c.Patch(ctx, o, patch); err != nil {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(c.Delete(ctx, o))
}
