package extension

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/extension/bootstrap"
	"github.com/espalier-dev/espalier/internal/gardenlet"
	"github.com/espalier-dev/espalier/internal/process"
)

// Of several replicas, only the one that holds the lease works. The configuration says where the lease is; the shipped role is for the
// namespace of the process.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=espalier-system,roleName=espalier-extension-controller-lease
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=gardenlet-leader-election-extension-controller,verbs=get;update,namespace=espalier-system,roleName=espalier-extension-controller-lease
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch,namespace=espalier-system,roleName=espalier-extension-controller-lease
// To find out whether a gardenlet runs, beside which this process must not run.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=gardenlet-leader-election,verbs=get,namespace=garden,roleName=espalier-extension-controller-source
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get,roleName=espalier-extension-controller-target
// To read the version of the garden.
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=gardener-info,verbs=get,roleName=espalier-extension-controller-target

// Family returns the functions of extension-controller. Its source is the cluster of the Seed, its target the garden cluster.
func Family() process.Family[*config.GardenletConfiguration] {
	return process.Family[*config.GardenletConfiguration]{
		Check: check, Prepare: prepare, Add: add,
		Needs: func(cfg *config.GardenletConfiguration) (process.Needs, error) {
			return Needs(Settings{SeedName: cfg.SeedConfig.Metadata.Name}), nil
		},
	}
}

// Renderer returns the subcommand by which the process starts itself again to render a chart.
func Renderer() process.Subcommand {
	return process.Subcommand{Name: chart.ChildArgument, Purpose: "render a chart for this binary itself", Run: chart.Child}
}

// check returns an error if the configuration names no Seed: no Seed is served that it does not name.
func check(cfg *config.GardenletConfiguration) error {
	if cfg.SeedConfig.Metadata.Name == "" {
		return errors.New("there is nothing to do: set seedConfig.metadata.name to the name of the Seed, or do not run extension-controller")
	}
	return nil
}

// prepare gets the credentials for the garden cluster. It returns an error if a gardenlet runs.
func prepare(ctx context.Context, setup *process.Setup, cfg *config.GardenletConfiguration) error {
	seed, err := setup.ConnectSource(Scheme())
	if err != nil {
		return err
	}
	guard := &gardenlet.Guard{
		Seed: seed.Client, SeedName: cfg.SeedConfig.Metadata.Name, Clock: setup.Clock, Log: setup.Log.WithName("gardenlet-guard"),
	}
	// Before the first certificate is requested, because the gardenlet may have the same Secrets.
	err = setup.Await(ctx, guard.CheckLeader)
	if err != nil {
		return err
	}
	check := func(ctx context.Context, garden client.Client) error {
		guard.Garden = garden
		return setup.Await(ctx, guard.Check)
	}
	err = getCredentials(ctx, setup, cfg, seed, check)
	if err != nil {
		return err
	}
	garden, err := setup.ConnectTarget(Scheme())
	if err != nil {
		return err
	}
	if err := check(ctx, garden.Client); err != nil {
		return err
	}
	setup.Runnables = append(setup.Runnables, guard)
	return nil
}

func getCredentials(
	ctx context.Context, setup *process.Setup, cfg *config.GardenletConfiguration, seed *process.Connection,
	check func(context.Context, client.Client) error,
) error {
	settings, ok := bootstrap.SettingsOf(cfg)
	switch {
	case setup.Config.Target.Kubeconfig != "":
		if ok {
			setup.Log.Info("Using a kubeconfig file for the garden cluster, which is not renewed",
				"kubeconfig", setup.Config.Target.Kubeconfig, "unused", "gardenClientConnection.kubeconfigSecret")
		}
		return nil
	case !ok:
		return errors.New("no credentials for the garden cluster are named: set gardenClientConnection.kubeconfigSecret, or " +
			"gardenClientConnection.kubeconfig")
	}
	stop, err := setup.AnswerPing(ctx) // a certificate may have to be approved by hand
	if err != nil {
		return err
	}
	defer stop()
	watch, err := client.NewWithWatch(seed.Config, client.Options{HTTPClient: seed.HTTPClient, Scheme: Scheme(), Mapper: seed.Mapper})
	if err != nil {
		return fmt.Errorf("create client for the Seed's cluster: %w", err)
	}
	m := &bootstrap.Manager{
		Settings: settings, Seed: seed.Client, Watch: watch, Check: check, Await: setup.Await, Clock: setup.Clock,
		Log: setup.Log.WithName("bootstrap"), Random: rand.Float64,
		Connect: func(with *rest.Config) (client.Client, error) {
			connection, failed := setup.ConnectWith(with, Scheme())
			if failed != nil {
				return nil, failed
			}
			return connection.Client, nil
		},
	}
	found, err := m.Credentials(ctx)
	if err != nil {
		return fmt.Errorf("get credentials for the garden cluster: %w", err)
	}
	setup.TargetCredentials = &process.Credentials{
		Config: found.Config, Origin: fmt.Sprintf("the kubeconfig in Secret %s", settings.Kubeconfig),
	}
	setup.Runnables = append(setup.Runnables, m.Runnables(found)...)
	return nil
}

func add(
	lifetime context.Context, clusters *process.Clusters, cfg *config.GardenletConfiguration, registry prometheus.Registerer,
) error {
	version, err := versionOf(lifetime, clusters.Target.GetAPIReader(), cfg)
	if err != nil {
		return err
	}
	settings, err := settingsOf(cfg, clusters.TargetConfig, version)
	if err != nil {
		return err
	}
	settings.Sandbox = chart.NewSandbox()
	return Add(Clusters{
		Seed: clusters.Source, Garden: clusters.Target, FieldManager: clusters.FieldManager, Clock: clusters.Clock,
	}, settings, registry)
}

// The ConfigMap in the garden cluster with the version of its API server.
const (
	infoNamespace = "gardener-system-public"
	infoName      = "gardener-info"
	infoKey       = "gardenerAPIServer"
)

// versionOf returns the version of Gardener that charts get: the configured version, or else the version of the garden.
func versionOf(ctx context.Context, garden client.Reader, cfg *config.GardenletConfiguration) (string, error) {
	if version := cfg.Espalier.Extension.GardenerVersion; version != "" {
		return version, nil
	}
	published := &corev1.ConfigMap{}
	err := garden.Get(ctx, client.ObjectKey{Namespace: infoNamespace, Name: infoName}, published)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("read the version of Gardener from ConfigMap %s/%s of the garden cluster: %w", infoNamespace, infoName, err)
	}
	info := struct {
		Version string `json:"version"`
	}{}
	if err := yaml.Unmarshal([]byte(published.Data[infoKey]), &info); err != nil || info.Version == "" {
		return "", fmt.Errorf("ConfigMap %s/%s of the garden cluster does not contain the version of Gardener: set "+
			"espalier.extension.gardenerVersion", infoNamespace, infoName)
	}
	return info.Version, nil
}

// settingsOf returns the settings of the controllers, without the sandbox. The argument garden is the connection of the process.
func settingsOf(cfg *config.GardenletConfiguration, garden *rest.Config, version string) (Settings, error) {
	alwaysInject, err := AlwaysInjects(version)
	if err != nil {
		return Settings{}, err
	}
	connection, controllers := cfg.GardenClientConnection, cfg.Controllers
	address, err := addressOf(connection, garden)
	if err != nil {
		return Settings{}, err
	}
	s := Settings{
		SeedName: cfg.SeedConfig.Metadata.Name, GardenerVersion: version, FeatureGates: cfg.FeatureGates, AlwaysInject: alwaysInject,
		Garden: address, Policy: chart.PolicyOf(cfg.Espalier.Extension.ChartPolicy),
		InstallationWorkers: ptr.Deref(controllers.ControllerInstallation.ConcurrentSyncs, 0),
		CareWorkers:         ptr.Deref(controllers.ControllerInstallationCare.ConcurrentSyncs, 0),
		RequiredWorkers:     ptr.Deref(controllers.ControllerInstallationRequired.ConcurrentSyncs, 0),
	}
	if period := controllers.ControllerInstallationCare.SyncPeriod; period != nil {
		s.CareSyncPeriod = period.Duration
	}
	if secret := connection.KubeconfigSecret; secret != nil && connection.Kubeconfig == "" {
		s.KubeconfigSecret = &types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}
	}
	return s, nil
}

// addressOf returns the connection that extensions get to the garden cluster, without credentials. A configured certificate authority
// replaces all settings of TLS.
func addressOf(connection config.GardenClientConnection, own *rest.Config) (*rest.Config, error) {
	garden := &rest.Config{Host: ptr.Deref(connection.GardenClusterAddress, own.Host)}
	garden.CAData, garden.CAFile, garden.Insecure = own.CAData, own.CAFile, own.Insecure
	if err := rest.LoadTLSFiles(garden); err != nil {
		return nil, fmt.Errorf("read certificate authority of the garden cluster: %w", err)
	}
	garden.CAFile = ""
	if len(connection.GardenClusterCACert) > 0 {
		garden.TLSClientConfig = rest.TLSClientConfig{CAData: connection.GardenClusterCACert}
	}
	return garden, nil
}
