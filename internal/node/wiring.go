// Package node assembles the controller that makes new Nodes available for Pods. It contains no rules of its own.
package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/node/criticalcomponents"
	"github.com/espalier-dev/espalier/internal/process"
)

// Check returns an error if the controller is disabled.
func Check(cfg *config.ResourceManagerConfiguration) error {
	if !cfg.Controllers.Node.Enabled {
		return errors.New("there is nothing to do: set controllers.node.enabled to true, or do not run node-controller")
	}
	return nil
}

// Needs returns the requirements of the family for its connections.
func Needs(cfg *config.ResourceManagerConfiguration) (process.Needs, error) {
	if err := requiredAreSeen(cfg); err != nil {
		return process.Needs{}, err
	}
	return process.Needs{
		Scheme:      clientgoscheme.Scheme,
		TargetCache: cache.Options{ByObject: criticalcomponents.CacheOptions()},
		TargetAccess: []process.Requirement{
			{Kind: corev1.SchemeGroupVersion.WithKind("Node"), Verbs: []string{"list", "watch", "patch"}},
			{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Verbs: []string{"list", "watch"}},
			{Kind: appsv1.SchemeGroupVersion.WithKind("DaemonSet"), Verbs: []string{"list", "watch"}},
			{Kind: storagev1.SchemeGroupVersion.WithKind("CSINode"), Verbs: []string{"get", "list", "watch"}},
			// Nodes have no namespace, so the Events about them are in namespace default.
			{Kind: eventsv1.SchemeGroupVersion.WithKind("Event"), Verbs: []string{"create", "patch"}, Namespace: metav1.NamespaceDefault},
		},
	}, nil
}

// Add adds the controller to the manager of the source cluster.
func Add(
	lifetime context.Context, clusters *process.Clusters, cfg *config.ResourceManagerConfiguration, registry prometheus.Registerer,
) error {
	section := cfg.Controllers.Node
	r := &criticalcomponents.Reconciler{
		Client: clusters.Target.GetClient(), Live: clusters.Target.GetAPIReader(), Namespaces: namespaces(cfg),
		Config: section, Own: cfg.Espalier.Node, Clock: clusters.Clock,
		Events:  &criticalcomponents.Events{Recorder: clusters.Target.GetEventRecorder(criticalcomponents.EventComponent)},
		Metrics: criticalcomponents.NewMetrics(registry),
	}
	if err := r.SetupWithManager(lifetime, clusters.Source, clusters.Target, ptr.Deref(section.ConcurrentSyncs, 0)); err != nil {
		return fmt.Errorf("add controller %s: %w", criticalcomponents.ControllerName, err)
	}
	return nil
}

// namespaces returns the namespaces that the target's caches contain; one empty name stands for all.
func namespaces(cfg *config.ResourceManagerConfiguration) []string {
	if restricted, _ := cfg.TargetNamespaces(); len(restricted) > 0 {
		return restricted
	}
	return []string{""}
}

// requiredAreSeen returns an error if a required DaemonSet is outside of the namespaces in the target's caches: then no Node would ever
// lose its taint.
func requiredAreSeen(cfg *config.ResourceManagerConfiguration) error {
	restricted, section := cfg.TargetNamespaces()
	for i, each := range cfg.Espalier.Node.Required() {
		if len(restricted) > 0 && !slices.Contains(restricted, each.Namespace) {
			return fmt.Errorf("espalier.node.requiredDaemonSets[%d]: DaemonSet %s could never be seen, and no Node would lose its taint: add "+
				"namespace %q to %s.namespaces", i, each, each.Namespace, section)
		}
	}
	return nil
}
