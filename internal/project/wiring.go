// Package project assembles the controllers of project-controller. It has no rules of its own.
package project

import (
	"context"
	"fmt"
	"maps"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
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
	"github.com/espalier-dev/espalier/internal/project/activity"
	"github.com/espalier-dev/espalier/internal/project/extensionaccess"
	"github.com/espalier-dev/espalier/internal/project/index"
	"github.com/espalier-dev/espalier/internal/project/lifecycle"
	"github.com/espalier-dev/espalier/internal/project/roles"
	"github.com/espalier-dev/espalier/internal/project/served"
	"github.com/espalier-dev/espalier/internal/project/stale"
)

// parts are the values that all parts of project-controller share.
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

// Needs returns the requirements of the family for its connection.
func Needs(cfg *config.ControllerManagerConfiguration) (process.Needs, error) {
	scheme := runtime.NewScheme()
	add := runtime.NewSchemeBuilder(
		clientgoscheme.AddToScheme, apiregistrationv1.AddToScheme, corev1beta1.AddToScheme, securityv1alpha1.AddToScheme)
	if err := add.AddToScheme(scheme); err != nil {
		return process.Needs{}, fmt.Errorf("build scheme: %w", err)
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
		SourceAccess: access(cfg),
	}
	maps.Copy(needs.SourceCache.ByObject, lifecycle.CacheOptions(len(cfg.Controllers.Project.Quotas) > 0))
	if cfg.Espalier.Project.Webhooks.Served() {
		needs.WebhookServer = server(cfg)
	}
	return needs, nil
}

// access returns the rights that the process must have. It does not return rights for the kinds that count as use of a project: if such a
// kind is not served, or if the process may not read it, projects are kept.
func access(cfg *config.ControllerManagerConfiguration) []process.Requirement {
	core, rbac := corev1.SchemeGroupVersion, rbacv1.SchemeGroupVersion
	writes := []string{"get", "list", "watch", "create", "patch", "delete"}
	required := []process.Requirement{
		// Nothing works without Projects. If an aggregated API server is meant to serve Projects, the installation of CRDs would take the API
		// group away from that server, and the objects in that server would look as if they were gone.
		{
			Kind: corev1beta1.SchemeGroupVersion.WithKind("Project"), Verbs: []string{"get", "list", "watch", "patch", "delete"},
			Remedy: "kubectl apply -f deploy/project-controller/crds",
			Unless: "another API server should serve them here: bring that one back instead, with its APIService " +
				corev1beta1.SchemeGroupVersion.Version + "." + corev1beta1.GroupName,
		},
		{Kind: core.WithKind("Namespace"), Verbs: writes},
		{Kind: rbac.WithKind("ClusterRole"), Verbs: append([]string{"escalate", "bind"}, writes...)},
		{Kind: rbac.WithKind("ClusterRoleBinding"), Verbs: writes},
		{Kind: rbac.WithKind("RoleBinding"), Verbs: writes},
	}
	if len(cfg.Controllers.Project.Quotas) > 0 {
		required = append(required, process.Requirement{
			Kind: core.WithKind("ResourceQuota"), Verbs: []string{"get", "list", "watch", "create", "patch"},
		})
	}
	return append(required, process.Requirement{Kind: core.WithKind("ServiceAccount"), Verbs: []string{"list", "watch"}})
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
		return fmt.Errorf("find served kinds: %w", err)
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

// addLifecycle adds the main loop.
func addLifecycle(lifetime context.Context, p *parts) error {
	mgr := p.clusters.Source
	r := &lifecycle.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), AnyShoot: p.served.HasShoot, Clock: p.clusters.Clock,
		Config: p.cfg.Controllers.Project, Own: p.cfg.Espalier.Project,
		// The Events must be core/v1 Events with a source, which the newer recorder does not send.
		Events:   &lifecycle.Events{Recorder: mgr.GetEventRecorderFor(lifecycle.EventSource)}, //nolint:staticcheck // see above
		Failures: lifecycle.RegisterMetrics(p.registry, mgr.GetClient()),
	}
	if err := r.SetupWithManager(lifetime, mgr, ptr.Deref(p.cfg.Controllers.Project.ConcurrentSyncs, 0)); err != nil {
		return fmt.Errorf("add controller %s: %w", lifecycle.ControllerName, err)
	}
	p.served.Handle(served.Shoot, func(before, after *served.Object) {
		if after == nil {
			r.ShootDeleted(lifetime, before.Namespace)
		}
	})
	return nil
}

// addStale adds the stale and activity loops.
func addStale(p *parts) error {
	source := p.clusters.Source
	workers := ptr.Deref(p.cfg.Controllers.Project.ConcurrentSyncs, 0)
	r := &stale.Reconciler{
		Client: source.GetClient(), Live: source.GetAPIReader(), Served: p.served, Clock: p.clusters.Clock, Registry: p.registry,
		Rules: stale.RulesOf(p.cfg.Controllers.Project, p.cfg.Espalier.Project),
	}
	if err := r.SetupWithManager(source, workers); err != nil {
		return fmt.Errorf("add controller %s: %w", stale.ControllerName, err)
	}
	active := &activity.Reconciler{Client: source.GetClient(), Clock: p.clusters.Clock}
	if err := active.SetupWithManager(source, p.served, workers); err != nil {
		return fmt.Errorf("add controller %s: %w", activity.ControllerName, err)
	}
	return nil
}

// addExtensionAccess adds the controller that binds labelled ClusterRoles to the ServiceAccounts of extensions. The controller gets a
// client of its own without caches, because it keeps less of each object than the shared cache would.
func addExtensionAccess(p *parts) error {
	source := p.clusters.Source
	live, err := client.NewWithWatch(source.GetConfig(), client.Options{
		HTTPClient: source.GetHTTPClient(), Scheme: source.GetScheme(), Mapper: source.GetRESTMapper(),
	})
	if err != nil {
		return fmt.Errorf("create client for controller %s: %w", extensionaccess.ControllerName, err)
	}
	r := &extensionaccess.Reconciler{
		Client: live, Outcomes: extensionaccess.NewOutcomes(p.registry),
		Events: &extensionaccess.Events{Recorder: source.GetEventRecorder(extensionaccess.ControllerName)},
	}
	if err := r.SetupWithManager(source); err != nil {
		return fmt.Errorf("add controller %s: %w", extensionaccess.ControllerName, err)
	}
	return nil
}
