// Package networkpolicy assembles the controller that derives NetworkPolicies from Services, and the one for general NetworkPolicies of
// namespaces. It has no rules of its own.
package networkpolicy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/networkpolicy/controller"
	"github.com/espalier-dev/espalier/internal/networkpolicy/desired"
	"github.com/espalier-dev/espalier/internal/networkpolicy/general"
	"github.com/espalier-dev/espalier/internal/process"
)

// Needs returns the requirements of the family for its connections: only the scheme if the family is disabled.
func Needs(cfg *config.ResourceManagerConfiguration) (process.Needs, error) {
	section := cfg.Controllers.NetworkPolicy
	scheme, err := newScheme()
	if err != nil || !section.Enabled {
		return process.Needs{Scheme: scheme}, err
	}
	ingresses := section.IngressControllerSelector != nil
	cached, err := controller.CacheOptions(ingresses, cfg.Espalier.NetworkPolicy.Instance)
	if err != nil {
		return process.Needs{}, err
	}
	return process.Needs{
		Scheme: scheme, TargetCache: cached,
		TargetAccess: append(access(ingresses, cfg.Espalier.NetworkPolicy.Observes()), generalAccess(cfg.Espalier.NetworkPolicy.General)...),
	}, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), operatorv1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}
	return scheme, nil
}

// generalAccess lists the rights that the general policies need in addition.
func generalAccess(section *config.GeneralNetworkPolicies) []process.Requirement {
	if section == nil {
		return nil
	}
	read := []string{"list", "watch"}
	required := []process.Requirement{{Kind: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), Verbs: read}}
	if section.NetworksOfGarden {
		required = append(required, process.Requirement{Kind: operatorv1alpha1.SchemeGroupVersion.WithKind("Garden"), Verbs: read})
	}
	return required
}

// access lists the rights that the process checks at start.
func access(ingresses, observeOnly bool) []process.Requirement {
	read := []string{"list", "watch"}
	policies := []string{"get", "list", "watch", "create", "patch", "delete"}
	if observeOnly {
		policies = read
	}
	required := []process.Requirement{
		{Kind: corev1.SchemeGroupVersion.WithKind("Service"), Verbs: read},
		{Kind: corev1.SchemeGroupVersion.WithKind("Namespace"), Verbs: read},
		{Kind: networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), Verbs: policies},
	}
	if ingresses {
		required = append(required, process.Requirement{Kind: networkingv1.SchemeGroupVersion.WithKind("Ingress"), Verbs: read})
	}
	return required
}

// Add adds the controllers to the manager of the source cluster: the controller of general policies only if it is configured. It returns an
// error if the family is disabled.
func Add(
	lifetime context.Context, clusters *process.Clusters, cfg *config.ResourceManagerConfiguration, registry prometheus.Registerer,
) error {
	section, own := cfg.Controllers.NetworkPolicy, cfg.Espalier.NetworkPolicy
	if !section.Enabled {
		return errors.New("nothing to do, controllers.networkPolicy is switched off: set controllers.networkPolicy.enabled to true, or do " +
			"not run this binary")
	}
	handled, err := selectors("controllers.networkPolicy.namespaceSelectors", section.NamespaceSelectors)
	if err != nil {
		return err
	}
	var clients []labels.Selector // nil allows all
	if list := own.ClientNamespaceSelectors; list != nil {
		if clients, err = selectors("espalier.networkPolicy.clientNamespaceSelectors", *list); err != nil {
			return err
		}
	}
	ingressController, err := ingressController(section.IngressControllerSelector, cfg)
	if err != nil {
		return err
	}
	visible, _ := cfg.TargetNamespaces()
	if len(handled) == 0 {
		clusters.Source.GetLogger().
			Info("Services of all namespaces get NetworkPolicies, kube-system included, because " +
				"controllers.networkPolicy.namespaceSelectors is empty")
	}
	if clients == nil {
		clusters.Source.GetLogger().
			Info("Services may select all namespaces as clients, because espalier.networkPolicy.clientNamespaceSelectors is missing")
	}
	reported := &controller.Reported{}
	metrics := controller.NewMetrics(registry, reported, own.Observes())
	r := &controller.Reconciler{
		Cached: clusters.Target.GetClient(), Live: clusters.Target.GetAPIReader(), Writer: clusters.Target.GetClient(),
		Events:  &controller.Events{Recorder: clusters.Target.GetEventRecorder("netpol-controller"), Reported: reported},
		Metrics: metrics,
		Writes:  controller.NewWrites(clusters.Clock), Repairs: controller.NewRepairs(clusters.Clock),
		Own: own, Handled: handled, Clients: clients, Visible: visible,
		IngressController: ingressController, Slots: make(chan struct{}, own.Requests()),
	}
	if err := r.SetupWithManager(lifetime, clusters.Source, clusters.Target, workers(cfg)); err != nil {
		return fmt.Errorf("add controller %s: %w", controller.ControllerName, err)
	}
	if cfg.Espalier.NetworkPolicy.General == nil {
		return nil
	}
	return addGeneral(clusters, cfg, metrics)
}

// addGeneral adds the controller of general policies. It has a cache of its own, because the other one has only policies of Services.
func addGeneral(clusters *process.Clusters, cfg *config.ResourceManagerConfiguration, metrics *controller.Metrics) error {
	section := cfg.Espalier.NetworkPolicy.General
	const at = "espalier.networkPolicy.general."
	full, err := selectors(at+"namespaceSelectors", section.NamespaceSelectors)
	if err != nil {
		return err
	}
	closed, err := selectors(at+"closedNamespaceSelectors", section.ClosedNamespaceSelectors)
	if err != nil {
		return err
	}
	clusterNetworks, err := general.Networks(section.Networks.Cluster)
	if err != nil {
		return fmt.Errorf("%snetworks.cluster: %w", at, err)
	}
	blocked, err := general.Networks(section.Networks.Blocked)
	if err != nil {
		return fmt.Errorf("%snetworks.blocked: %w", at, err)
	}
	visible, _ := cfg.TargetNamespaces()
	cached, err := general.CacheOptions(cfg.Espalier.NetworkPolicy.Instance, visible, section.NetworksOfGarden)
	if err != nil {
		return err
	}
	target := clusters.Target
	own, err := cluster.New(clusters.TargetConfig, func(o *cluster.Options) {
		o.Scheme, o.Cache, o.HTTPClient, o.Logger = target.GetScheme(), cached, clusters.TargetHTTPClient, clusters.Source.GetLogger()
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return target.GetRESTMapper(), nil }
	})
	if err != nil {
		return fmt.Errorf("create cache of general policies: %w", err)
	}
	if err = clusters.Source.Add(own); err != nil {
		return fmt.Errorf("add cache of general policies: %w", err)
	}
	serverName, err := general.NewServerName(clusters.TargetConfig.Host, clusters.Clock)
	if err != nil {
		return err
	}
	r := &general.Reconciler{
		Namespaces: target.GetClient(), Cached: own.GetCache(), Live: target.GetAPIReader(), Writer: target.GetClient(),
		Events: &general.Events{Recorder: target.GetEventRecorder("netpol-controller")}, Clock: clusters.Clock, Wrote: metrics.Wrote,
		Own: cfg.Espalier.NetworkPolicy, Full: full, Closed: closed, Visible: visible,
		Cluster: clusterNetworks, Blocked: blocked, ServerName: serverName,
	}
	if err := r.SetupWithManager(clusters.Source, target, own, ptr.Deref(cfg.Controllers.NetworkPolicy.ConcurrentSyncs, 1)); err != nil {
		return fmt.Errorf("add controller %s: %w", general.ControllerName, err)
	}
	return nil
}

// workers returns enough workers to use all allowed concurrent requests even if each Service needs only one pair of policies.
func workers(cfg *config.ResourceManagerConfiguration) int {
	return max(ptr.Deref(cfg.Controllers.NetworkPolicy.ConcurrentSyncs, 1), cfg.Espalier.NetworkPolicy.Requests()/2)
}

// selectors parses a list of the configuration. The result is never nil.
func selectors(setting string, list []metav1.LabelSelector) ([]labels.Selector, error) {
	parsed := make([]labels.Selector, 0, len(list))
	for i := range list {
		selector, err := metav1.LabelSelectorAsSelector(&list[i])
		if err != nil {
			return nil, fmt.Errorf("failed parsing namespace selector %d of %s: %w", i, setting, err)
		}
		parsed = append(parsed, selector)
	}
	return parsed, nil
}

func ingressController(
	section *config.IngressControllerSelector, cfg *config.ResourceManagerConfiguration,
) (*desired.IngressController, error) {
	if section == nil {
		return nil, nil
	}
	const field = "controllers.networkPolicy.ingressControllerSelector.namespace"
	if section.Namespace == "" {
		return nil, errors.New(field + " is empty: name the namespace of the ingress controller, or leave the selector out")
	}
	if visible, side := cfg.TargetNamespaces(); len(visible) > 0 && !slices.Contains(visible, section.Namespace) {
		// One policy of each pair would be in a namespace that no cache covers.
		return nil, fmt.Errorf("%s is %q, which is not among %s.namespaces: add it there, or leave the selector out", field, section.Namespace,
			side)
	}
	return &desired.IngressController{Namespace: section.Namespace, Pods: section.PodSelector}, nil
}
