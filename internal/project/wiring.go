// Package project assembles what project-controller runs. It has no rules of its own.
package project

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	securityv1alpha1 "github.com/espalier-dev/espalier/api/security/v1alpha1"
	"github.com/espalier-dev/espalier/internal/admission/serving"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/project/index"
	"github.com/espalier-dev/espalier/internal/project/lifecycle"
	"github.com/espalier-dev/espalier/internal/project/roles"
	"github.com/espalier-dev/espalier/internal/project/served"
)

// parts are shared by all parts of the family.
type parts struct {
	clusters *process.Clusters
	cfg      *config.ControllerManagerConfiguration
	registry prometheus.Registerer
	served   *served.Tracker
}

// Of several replicas, only the one that holds the lease works. The configuration says where the lease is; the shipped role is for the
// namespace of the process.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=espalier-system,roleName=espalier-project-controller-lease
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=gardener-controller-manager-leader-election-project-controller,verbs=get;update,namespace=espalier-system,roleName=espalier-project-controller-lease
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch,namespace=espalier-system,roleName=espalier-project-controller-lease

// Needs returns what the family needs from its connection.
func Needs(cfg *config.ControllerManagerConfiguration) (process.Needs, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, corev1beta1.AddToScheme, securityv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return process.Needs{}, fmt.Errorf("build scheme: %w", err)
		}
	}
	needs := process.Needs{
		Scheme: scheme,
		SourceCache: cache.Options{
			ByObject: map[client.Object]cache.ByObject{
				&corev1beta1.Project{}: {Transform: shrinkProject},
				// Only metadata of namespaces is cached.
				&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}: {Transform: shrinkNamespace},
			},
			DefaultTransform: cache.TransformStripManagedFields(), NewInformer: roles.NewInformer,
		},
		SourceAccess: slices.Concat([]process.Requirement{projects()}, lifecycleAccess(cfg), staleAccess(), extensionAccess()),
	}
	maps.Copy(needs.SourceCache.ByObject, lifecycle.CacheOptions(len(cfg.Controllers.Project.Quotas) > 0))
	if cfg.Espalier.Project.Webhooks.Served() {
		needs.WebhookServer = server(cfg)
	}
	return needs, nil
}

// projects is the requirement of the kind Project, without which nothing works. If an aggregated API serves Projects, installing CRDs would
// take the group from it, and its objects would look as if they were gone.
func projects() process.Requirement {
	return process.Requirement{
		Kind: corev1beta1.SchemeGroupVersion.WithKind("Project"), Verbs: []string{"get", "list", "watch", "patch", "delete"},
		Remedy: "kubectl apply -f deploy/project-controller/crds",
		Unless: "another API server should serve them here: bring that one back instead, with its APIService " +
			corev1beta1.SchemeGroupVersion.Version + "." + corev1beta1.GroupName,
	}
}

func server(cfg *config.ControllerManagerConfiguration) *serving.Server {
	own := cfg.Espalier.Project.Webhooks
	return serving.New(serving.Options{
		BindAddress: own.BindAddress, Port: own.Port,
		CertDir: own.TLS.ServerCertDir, CertFile: own.TLS.ServerCertPath, KeyFile: own.TLS.ServerKeyPath,
		Setting:       "espalier.project.webhooks.tls",
		ShutdownDelay: ptr.Deref(own.ShutdownDelay, metav1.Duration{}).Duration,
		Clock:         clock.RealClock{}, Log: ctrl.Log.WithName("webhook-server"),
	})
}

// Add adds all controllers, and the webhooks if they are served, to the manager. The manager must have been created with Needs.
func Add(
	lifetime context.Context, clusters *process.Clusters, cfg *config.ControllerManagerConfiguration, registry prometheus.Registerer,
) error {
	if err := index.Add(lifetime, clusters.Source.GetFieldIndexer()); err != nil {
		return err
	}
	tracker, err := served.New(clusters, registry)
	if err != nil {
		return fmt.Errorf("find out what is served: %w", err)
	}
	defaulted := *cfg // an empty field must never mean that projects are deleted at once
	defaulted.Default()
	p := &parts{clusters: clusters, cfg: &defaulted, registry: registry, served: tracker}
	if err := addLifecycle(lifetime, p); err != nil {
		return err
	}
	for _, add := range []func(*parts) error{addStale, addExtensionAccess, addWebhooks} {
		if err := add(p); err != nil {
			return err
		}
	}
	return nil
}
