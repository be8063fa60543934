package webhook

import (
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/serving"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/webhook/deletionprotection"
	"github.com/espalier-dev/espalier/internal/webhook/endpointslicehints"
	"github.com/espalier-dev/espalier/internal/webhook/extensionvalidation"
	"github.com/espalier-dev/espalier/internal/webhook/highavailability"
	"github.com/espalier-dev/espalier/internal/webhook/lookup"
	"github.com/espalier-dev/espalier/internal/webhook/schedulername"
	"github.com/espalier-dev/espalier/internal/webhook/seccompprofile"
	"github.com/espalier-dev/espalier/internal/webhook/servicehost"
	"github.com/espalier-dev/espalier/internal/webhook/systemcomponents"
	"github.com/espalier-dev/espalier/internal/webhook/tokeninvalidator"
	"github.com/espalier-dev/espalier/internal/webhook/tokenmount"
	"github.com/espalier-dev/espalier/internal/webhook/topologyspread"
)

// endpoints returns the enabled handlers. A path whose handler is disabled is not served.
func endpoints(cfg *config.ResourceManagerConfiguration, clusters *process.Clusters, found *lookup.Lookups) []serving.Webhook {
	w := cfg.Webhooks
	var all []serving.Webhook
	add := func(enabled bool, each serving.Webhook) {
		if enabled {
			all = append(all, each)
		}
	}
	mutate := func(enabled bool, name, path string, handler review.Handler) {
		add(enabled, serving.Webhook{Name: name, Path: path, Mutating: true, Handler: handler})
	}
	mutate(w.TokenInvalidator.Enabled, tokeninvalidator.Name, tokeninvalidator.Path, tokeninvalidator.Handler{})
	mutate(w.ProjectedTokenMount.Enabled, tokenmount.Name, tokenmount.Path,
		tokenmount.Handler{ExpirationSeconds: ptr.Deref(w.ProjectedTokenMount.ExpirationSeconds, 0), ServiceAccounts: found})
	mutate(w.HighAvailabilityConfig.Enabled, highavailability.Name, highavailability.Path, &highavailability.Handler{
		Namespaces: found, Scaling: found, LegacyReplicaCriteria: cfg.Espalier.Webhooks.LegacyReplicaCriteria,
		DefaultNotReadyTolerationSeconds:    w.HighAvailabilityConfig.DefaultNotReadyTolerationSeconds,
		DefaultUnreachableTolerationSeconds: w.HighAvailabilityConfig.DefaultUnreachableTolerationSeconds,
	})
	mutate(w.PodSchedulerName.Enabled, schedulername.Name, schedulername.Path, schedulername.Handler{SchedulerName: ptr.Deref(w.PodSchedulerName.SchedulerName, "")})
	mutate(w.SeccompProfile.Enabled, seccompprofile.Name, seccompprofile.Path, seccompprofile.Handler{})
	mutate(w.KubernetesServiceHost.Enabled, servicehost.Name, servicehost.Path, servicehost.Handler{Host: w.KubernetesServiceHost.Host})
	mutate(w.SystemComponentsConfig.Enabled, systemcomponents.Name, systemcomponents.Path, systemcomponents.Handler{Config: w.SystemComponentsConfig, Nodes: found})
	mutate(w.EndpointSliceHints.Enabled, endpointslicehints.Name, endpointslicehints.Path, endpointslicehints.Handler{})
	mutate(w.PodTopologySpread.Enabled, topologyspread.Name, topologyspread.Path, topologyspread.Handler{})
	add(w.CRDDeletionProtection.Enabled, serving.Webhook{
		Name: deletionprotection.Name, Path: deletionprotection.Path, Handler: &deletionprotection.Handler{Source: clusters.Source.GetAPIReader()},
	})
	for _, kind := range extensionvalidation.Kinds() {
		add(w.ExtensionValidation.Enabled, serving.Webhook{Name: kind.Name, Path: kind.Path, Handler: kind.Handler()})
	}
	return all
}

// anyEnabled tells whether there is anything to serve.
func anyEnabled(w config.Webhooks) bool {
	return w.TokenInvalidator.Enabled || w.ProjectedTokenMount.Enabled || w.HighAvailabilityConfig.Enabled || w.PodSchedulerName.Enabled ||
		w.SeccompProfile.Enabled || w.KubernetesServiceHost.Enabled || w.SystemComponentsConfig.Enabled || w.EndpointSliceHints.Enabled ||
		w.PodTopologySpread.Enabled || w.CRDDeletionProtection.Enabled || w.ExtensionValidation.Enabled
}
