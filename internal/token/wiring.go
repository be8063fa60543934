// Package token assembles the controllers for ServiceAccount tokens: the token requestor and the token invalidator. It contains no rules of
// its own.
package token

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/gardenlet"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/token/invalidator"
	"github.com/espalier-dev/espalier/internal/token/requestor"
)

// For leader election.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=espalier-system,roleName=espalier-token-controllers-lease
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=gardener-resource-manager-token-controllers,verbs=get;update,namespace=espalier-system,roleName=espalier-token-controllers-lease
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch,namespace=espalier-system,roleName=espalier-token-controllers-lease
// To compare the UID of this namespace in source and target, which shows whether they are one cluster.
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get,roleName=espalier-token-controllers-source
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get,roleName=espalier-token-controllers-target
// With class garden: to find out whether a gardenlet, which keeps the same tokens, runs in the source, or renews the lease of a Seed in the
// target.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=gardenlet-leader-election,verbs=get,roleName=espalier-token-controllers-source
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get,roleName=espalier-token-controllers-target

// Needs returns the requirements of the family for its connections, for the enabled controllers.
func Needs(cfg *config.ResourceManagerConfiguration) (process.Needs, error) {
	needs := process.Needs{Scheme: clientgoscheme.Scheme}
	secret, account := corev1.SchemeGroupVersion.WithKind("Secret"), corev1.SchemeGroupVersion.WithKind("ServiceAccount")
	if cfg.Controllers.TokenRequestor.Enabled {
		needs.SourceCache.ByObject = requestor.SourceCache(cfg.Espalier.Token.Class)
		needs.SourceAccess = []process.Requirement{{Kind: secret, Verbs: []string{"get", "list", "watch", "patch"}}}
		if cfg.Espalier.Token.TargetNamespace == nil { // otherwise rights in that namespace are enough, and errors name them
			needs.TargetAccess = []process.Requirement{{Kind: account, Verbs: []string{"get", "create", "update"}}}
		}
	}
	if cfg.Controllers.TokenInvalidator.Enabled {
		needs.TargetCache.ByObject = invalidator.TargetCache()
		needs.TargetAccess = append(needs.TargetAccess,
			process.Requirement{Kind: account, Verbs: []string{"list", "watch"}},
			process.Requirement{Kind: secret, Verbs: []string{"list", "watch", "patch"}},
			process.Requirement{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Verbs: []string{"list"}},
		)
	}
	return needs, nil
}

// Add adds the enabled controllers to the manager of the source cluster. It returns an error if none is enabled.
func Add(
	lifetime context.Context, clusters *process.Clusters, cfg *config.ResourceManagerConfiguration, registry prometheus.Registerer,
) error {
	controllers := cfg.Controllers
	if !controllers.TokenRequestor.Enabled && !controllers.TokenInvalidator.Enabled {
		return errors.New("nothing to do: set controllers.tokenRequestor.enabled or controllers.tokenInvalidator.enabled to true, or do not " +
			"run this binary")
	}
	if controllers.TokenRequestor.Enabled {
		if err := addGuard(lifetime, clusters, cfg.Espalier.Token); err != nil {
			return err
		}
		if err := addRequestor(clusters, cfg, registry); err != nil {
			return fmt.Errorf("add controller %s: %w", requestor.ControllerName, err)
		}
	}
	if controllers.TokenInvalidator.Enabled {
		if err := addInvalidator(lifetime, clusters, cfg, registry); err != nil {
			return fmt.Errorf("add controller %s: %w", invalidator.ControllerName, err)
		}
	}
	return nil
}

// gardenClass is the class of Secrets with tokens for the garden cluster, which gardenlet keeps too.
const gardenClass = "garden"

// addGuard returns an error if a gardenlet keeps the same tokens, and ends the process when one starts.
func addGuard(lifetime context.Context, clusters *process.Clusters, own config.EspalierToken) error {
	if ptr.Deref(own.Class, "") != gardenClass {
		return nil
	}
	guard := &gardenlet.Guard{
		Seed: clusters.Source.GetAPIReader(), Garden: clusters.Target.GetAPIReader(),
		SeedName: gardenlet.SeedOf(ptr.Deref(own.TargetNamespace, "")),
		Clock:    clusters.Clock, Log: clusters.Source.GetLogger().WithName("gardenlet-guard"),
	}
	if err := guard.Check(lifetime); err != nil {
		return err
	}
	if err := clusters.Source.Add(guard); err != nil {
		return fmt.Errorf("add to manager: %w", err)
	}
	return nil
}

func addRequestor(clusters *process.Clusters, cfg *config.ResourceManagerConfiguration, registry prometheus.Registerer) error {
	own := cfg.Espalier.Token
	limits := limitsOf(clusters, cfg)
	same, known := clusters.Same.Answer()
	if same && known {
		if err := limits.RefuseUnrestricted(); err != nil {
			return err
		}
	}
	unused := limits.Unused(same || !known)
	for _, account := range slices.Sorted(maps.Keys(unused)) {
		clusters.Source.GetLogger().Info("ServiceAccount is listed in espalier.token.sameCluster.systemServiceAccounts without effect",
			"serviceAccount", account, "reason", unused[account])
	}
	memory := requestor.NewMemory()
	r := &requestor.Reconciler{
		Secrets: clusters.Source.GetCache(), Source: clusters.Source.GetClient(), Target: clusters.Target.GetClient(),
		TargetAccounts: clusters.Target.GetAPIReader(),
		CA:             requestor.CAOf(clusters.TargetConfig.CAData, clusters.TargetConfig.CAFile, os.ReadFile),
		Clock:          clusters.Clock, Spread: requestor.NewSpread(rand.Float64()), Memory: memory, //nolint:gosec // it is not a secret
		Events:  &requestor.Events{Recorder: clusters.Source.GetEventRecorder("token-controllers")},
		Metrics: requestor.NewMetrics(registry, clusters.Clock, memory),
		Limits:  limits, Own: own, SameCluster: clusters.Same.Ask,
	}
	workers := max(ptr.Deref(cfg.Controllers.TokenRequestor.ConcurrentSyncs, 0), ptr.Deref(own.RequestorWorkers, 0))
	return r.SetupWithManager(clusters.Source, workers)
}

func limitsOf(clusters *process.Clusters, cfg *config.ResourceManagerConfiguration) requestor.Limits {
	set := requestor.Limits{
		TargetNamespace: ptr.Deref(cfg.Espalier.Token.TargetNamespace, ""),
		OwnNamespace:    clusters.OwnNamespace, SourceNamespaces: cfg.SourceClientConnection.Namespaces,
		Allowed: ptr.Deref(cfg.Espalier.Token.SameCluster, config.EspalierTokenSameCluster{}),
	}
	// Without a connection to a target there is one cluster. Then SourceNamespaces limit the target too, unless Scope allows all
	// namespaces.
	if cfg.TargetClientConnection != nil {
		set.TargetNamespaces = cfg.TargetClientConnection.Namespaces
	}
	return set
}

func addInvalidator(
	lifetime context.Context, clusters *process.Clusters, cfg *config.ResourceManagerConfiguration, registry prometheus.Registerer,
) error {
	namespaces, _ := cfg.TargetNamespaces() // the cache of ServiceAccounts is restricted to these, too
	secrets, err := invalidator.NewSecrets(clusters.TargetConfig,
		cache.Options{HTTPClient: clusters.TargetHTTPClient, Mapper: clusters.TargetMapper}, namespaces)
	if err != nil {
		return err
	}
	r := &invalidator.Reconciler{
		Secrets: secrets, Target: clusters.Target.GetClient(), Live: clusters.Target.GetAPIReader(),
		Events:  &invalidator.Events{Recorder: clusters.Target.GetEventRecorder("token-controllers")},
		Metrics: invalidator.NewMetrics(registry), Pauses: invalidator.NewPauses(),
	}
	workers := max(ptr.Deref(cfg.Controllers.TokenInvalidator.ConcurrentSyncs, 0), 1)
	return r.SetupWithManager(lifetime, clusters.Source, clusters.Target.GetCache(), workers)
}
