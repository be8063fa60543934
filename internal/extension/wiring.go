// Package extension assembles the controllers that install extensions in the cluster of one Seed, as gardenlet does. It contains no rules
// of its own.
//
// The source is the cluster of the Seed, in which the process runs; the target is the garden. The packages below this one are
//   - installation: the objects of a ControllerInstallation, their deletion, and the conditions Valid and Installed,
//   - care: the conditions Installed, Healthy and Progressing, from the ManagedResource,
//   - required: the condition Required, from the objects of extensions in the Seed,
//   - operation: the operations that a Seed is annotated with.
package extension

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/extension/care"
	"github.com/espalier-dev/espalier/internal/extension/installation"
	"github.com/espalier-dev/espalier/internal/extension/operation"
	"github.com/espalier-dev/espalier/internal/extension/required"
	"github.com/espalier-dev/espalier/internal/process"
)

// maxCharts is the limit of the number of charts in memory, each of at most chart.MaxArchive bytes.
const maxCharts = 8

// Settings are the settings of the controllers. SeedName, GardenerVersion, Garden and Sandbox are required.
type Settings struct {
	// SeedName is the name of the Seed. Objects of other Seeds are neither read nor changed.
	SeedName string
	// GardenerVersion is the version of Gardener that charts get as gardener.version.
	GardenerVersion string
	// FeatureGates are the feature gates that charts get as gardener.gardenlet.featureGates.
	FeatureGates map[string]bool
	// Garden is the connection that extensions get to the garden: server, certificate authority and whether to verify the certificate.
	// Credentials in it are not used.
	Garden *rest.Config
	// AlwaysInject gives every extension access to the garden, as Gardener before 1.115. Otherwise only the extensions get access whose
	// ControllerDeployment asks for it. See AlwaysInjects.
	AlwaysInject bool
	// KubeconfigSecret is the Secret in the Seed's cluster with the kubeconfig of this process. Nil: there is no such Secret, and the
	// operation renew-kubeconfig fails.
	KubeconfigSecret *types.NamespacedName
	// Policy describes the objects that a chart may contain. The zero value is the safe default.
	Policy chart.Policy
	// Sandbox renders charts; see chart.NewSandbox. The main function of the process calls chart.Child.
	Sandbox chart.Sandbox
	// InstallationWorkers, CareWorkers and RequiredWorkers are the numbers of objects that a controller processes at once. 0: 20, 5 and 5.
	InstallationWorkers, CareWorkers, RequiredWorkers int
	// CareSyncPeriod is the time after which conditions are judged again without a change. 0: 30 seconds.
	CareSyncPeriod time.Duration
}

// Clusters are the connections of the process.
type Clusters struct {
	// Seed is the manager: it runs the controllers, and its client and cache are connected to the cluster of the Seed. SeedCache configures
	// the cache.
	Seed manager.Manager
	// Garden is the garden cluster, whose cache the manager runs. GardenCache configures the cache.
	Garden cluster.Cluster
	// FieldManager is the name under which managedFields record the writes of the process.
	FieldManager string
	Clock        clock.WithTicker
}

// AlwaysInjects reports whether Gardener of this version gives every extension access to the garden. Since 1.115 an extension has to ask
// for it.
func AlwaysInjects(gardener string) (bool, error) {
	parsed, err := version.ParseSemantic(gardener)
	if err != nil {
		return false, fmt.Errorf("read version %q of Gardener: %w", gardener, err)
	}
	return parsed.LessThan(version.MustParseSemantic("1.115.0-0")), nil
}

// Scheme returns the kinds of both clusters.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, corev1beta1.AddToScheme, resourcesv1alpha1.AddToScheme,
	} {
		utilruntime.Must(add(scheme)) // which cannot fail, because the kinds do not overlap
	}
	return scheme
}

// Needs returns the requirements for the connections: the source is the cluster of the Seed, the target is the garden.
func Needs(settings Settings) process.Needs {
	return process.Needs{
		Scheme:      Scheme(),
		SourceCache: cache.Options{ByObject: SeedCache()},
		TargetCache: cache.Options{ByObject: GardenCache(settings.SeedName)},
		SourceAccess: []process.Requirement{
			{
				Kind: resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource"), Namespace: installation.GardenNamespace,
				Verbs: []string{"get", "list", "watch", "create", "update", "delete"},
			},
			{Kind: corev1.SchemeGroupVersion.WithKind("Secret"), Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"}},
			{Kind: corev1.SchemeGroupVersion.WithKind("Namespace"), Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
		},
	}
}

// SeedCache returns the options of the cache of the Seed's cluster. This cache contains the ManagedResources that install extensions, the
// namespaces of extensions, and the Secrets that the controllers wrote for extensions.
func SeedCache() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&resourcesv1alpha1.ManagedResource{}: installation.ManagedResources(), &corev1.Namespace{}: installation.Namespaces(),
		&corev1.Secret{}: installation.Secrets(),
	}
}

// GardenCache returns the options of the cache of the garden: the Seed and its ControllerInstallations.
func GardenCache(seed string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1beta1.ControllerInstallation{}: installation.Installations(seed),
		&corev1beta1.Seed{}:                   {Field: fields.OneTermEqualSelector(metav1.ObjectNameField, seed)},
	}
}

// Add adds the controllers to the manager. They have no metrics of their own yet.
func Add(clusters Clusters, settings Settings, _ prometheus.Registerer) error {
	kubernetes, err := discovery.NewDiscoveryClientForConfigAndClient(clusters.Seed.GetConfig(), clusters.Seed.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("create client for the version of the Seed's cluster: %w", err)
	}
	live, err := clusters.connect(clusters.Seed.GetRESTMapper())
	if err != nil {
		return err
	}
	objects, err := clusters.connect(required.Mapper())
	if err != nil {
		return err
	}
	installations := &installation.Reconciler{
		Garden: clusters.Garden.GetClient(), GardenLive: clusters.Garden.GetAPIReader(), Seed: live,
		KubernetesVersion: func() (string, error) {
			found, err := kubernetes.ServerVersion()
			if err != nil {
				return "", fmt.Errorf("discover version: %w", err)
			}
			return found.GitVersion, nil
		},
		SeedName: settings.SeedName, GardenerVersion: settings.GardenerVersion, FeatureGates: settings.FeatureGates,
		Connection: settings.Garden, AlwaysInject: settings.AlwaysInject, Policy: settings.Policy, Sandbox: settings.Sandbox,
		Charts: chart.NewCache(maxCharts), FieldManager: clusters.FieldManager, Clock: clusters.Clock,
	}
	judge := &care.Reconciler{
		Garden: clusters.Garden.GetClient(), Seed: clusters.Seed.GetCache(), SeedName: settings.SeedName,
		Namespace: installation.GardenNamespace, SyncPeriod: cmp.Or(settings.CareSyncPeriod, 30*time.Second), Clock: clusters.Clock,
	}
	needs := &required.Reconciler{
		Garden: clusters.Garden.GetClient(), GardenLive: clusters.Garden.GetAPIReader(), Seed: objects, SeedName: settings.SeedName,
		Clock: clusters.Clock,
	}
	operations := &operation.Reconciler{
		Garden: clusters.Garden.GetClient(), Seed: live, KubeconfigSecret: settings.KubeconfigSecret, FieldManager: clusters.FieldManager,
	}
	garden := clusters.Garden.GetCache()
	return errors.Join(
		named(installation.ControllerName, installations.SetupWithManager(clusters.Seed, garden, cmp.Or(settings.InstallationWorkers, 20))),
		named(care.ControllerName, judge.SetupWithManager(clusters.Seed, garden, cmp.Or(settings.CareWorkers, 5))),
		named(required.ControllerName, needs.SetupWithManager(clusters.Seed, garden, cmp.Or(settings.RequiredWorkers, 5))),
		named(operation.ControllerName, operations.SetupWithManager(clusters.Seed, garden)),
	)
}

// connect returns a client of the Seed's cluster without a cache.
func (c Clusters) connect(mapper meta.RESTMapper) (client.WithWatch, error) {
	connected, err := client.NewWithWatch(c.Seed.GetConfig(), client.Options{
		HTTPClient: c.Seed.GetHTTPClient(), Scheme: c.Seed.GetScheme(), Mapper: mapper,
	})
	if err != nil {
		return nil, fmt.Errorf("create client for the Seed's cluster: %w", err)
	}
	return connected, nil
}

func named(controller string, err error) error {
	if err != nil {
		return fmt.Errorf("add controller %s: %w", controller, err)
	}
	return nil
}
