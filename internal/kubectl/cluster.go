package kubectl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// fieldOwner is the field manager of writes.
const fieldOwner = "kubectl-espalier"

// cluster is a connection to a cluster.
type cluster struct {
	client.WithWatch
	mapper meta.RESTMapper
	// rest sends requests to any path.
	rest rest.Interface
	// namespace is the namespace of the command line or of the kubeconfig.
	namespace string
}

// source returns the connection to the cluster with the ManagedResources.
func (p *program) source() (*cluster, error) {
	c, err := connect(clientcmd.NewNonInteractiveDeferredLoadingClientConfig(p.rules, p.overrides))
	if err != nil {
		return nil, fmt.Errorf("connect to source cluster: %w; see --kubeconfig and --context", err)
	}
	return c, nil
}

// target returns the connection to the cluster with the objects of the ManagedResources.
func (p *program) target(source *cluster) (*cluster, error) {
	if p.targetKubeconfig == "" && p.targetContext == "" {
		return source, nil
	}
	rules := *p.rules
	if p.targetKubeconfig != "" {
		rules.ExplicitPath = p.targetKubeconfig
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: p.targetContext}
	c, err := connect(clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&rules, overrides))
	if err != nil {
		return nil, fmt.Errorf("connect to target cluster: %w; see --target-kubeconfig and --target-context", err)
	}
	c.namespace = source.namespace
	return c, nil
}

func connect(loader clientcmd.ClientConfig) (*cluster, error) {
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, err
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // The API server limits the requests of users.
	config.WarningHandler = rest.NoWarnings{}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(found)
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	scheme := runtime.NewScheme()
	err = errors.Join(corev1.AddToScheme(scheme), resourcesv1alpha1.AddToScheme(scheme), operatorv1alpha1.AddToScheme(scheme))
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, err
	}
	return &cluster{WithWatch: c, mapper: mapper, rest: found.RESTClient(), namespace: namespace}, nil
}

// explain adds the name and the remedy to an error of a request, such as "list ManagedResources".
func explain(request string, err error) error {
	remedy := ""
	switch {
	case err == nil:
		return nil
	case meta.IsNoMatchError(err):
		remedy = "; the cluster does not serve this kind: choose the right one with --context, or install its definition (deploy/crds)"
	case apierrors.IsForbidden(err):
		remedy = "; ask an administrator for the ClusterRole espalier-view (deploy/kubectl-espalier)"
	case apierrors.IsUnauthorized(err):
		remedy = "; renew the credentials of the kubeconfig"
	case apierrors.IsNotFound(err):
		remedy = "; kubectl espalier status -A lists ManagedResources, kubectl espalier garden status lists Gardens"
	}
	if apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && remedy == "" {
		remedy = "; is the cluster of --context the right one, and can it be reached?"
	}
	return fmt.Errorf("%s: %w%s", request, err, remedy)
}

// The role contains the rights to read all that the commands print, but no right to Secrets. Objects of other kinds are shown as
// unreadable, unless the user has further rights.
//
// +kubebuilder:rbac:groups=resources.gardener.cloud,resources=managedresources,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=list

// set reads the ManagedResource that an argument names: a name, or a namespace and a name.
func (c *cluster) set(ctx context.Context, argument string) (*resourcesv1alpha1.ManagedResource, error) {
	key := c.key(argument)
	mr := &resourcesv1alpha1.ManagedResource{}
	return mr, explain("read ManagedResource "+key.String(), c.Get(ctx, key, mr))
}

// key returns the namespace and the name that an argument contains: a name, or a namespace and a name.
func (c *cluster) key(argument string) client.ObjectKey {
	if namespace, name, found := strings.Cut(argument, "/"); found {
		return client.ObjectKey{Namespace: namespace, Name: name}
	}
	return client.ObjectKey{Namespace: c.namespace, Name: argument}
}

// eventsAbout reads the Events about a ManagedResource of a namespace, or about all ManagedResources of the namespace if name is empty.
// Without a namespace it reads the Events of all namespaces.
func (c *cluster) eventsAbout(ctx context.Context, namespace, name string) ([]corev1.Event, error) {
	about := client.MatchingFields{"involvedObject.kind": "ManagedResource"}
	if name != "" {
		about["involvedObject.name"] = name
	}
	list := &corev1.EventList{}
	err := c.List(ctx, list, client.InNamespace(namespace), about)
	return list.Items, explain("list Events about ManagedResources", err)
}

// kind returns the kind that an argument names, in any form that kubectl accepts: configmap, cm, deployments.apps, Deployment.
func (c *cluster) kind(argument string) (schema.GroupVersionKind, *meta.RESTMapping, error) {
	full, resource := schema.ParseResourceArg(strings.ToLower(argument))
	kind := schema.GroupVersionKind{}
	var err error
	if full != nil {
		kind, err = c.mapper.KindFor(*full)
	}
	if kind.Empty() {
		kind, err = c.mapper.KindFor(resource.WithVersion(""))
	}
	if err != nil {
		return kind, nil, fmt.Errorf("find kind %q: %w; kubectl api-resources lists all kinds of the target cluster", argument, err)
	}
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	return kind, mapping, err
}
