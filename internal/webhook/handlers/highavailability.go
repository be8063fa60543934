package handlers

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/highavailability"
)

const (
	considerHA = "high-availability-config.resources.gardener.cloud/consider"
	skipHA     = "high-availability-config.resources.gardener.cloud/skip"
)

// highAvailability returns the row of package highavailability.
func highAvailability() Handler {
	return Handler{
		Name: "high-availability-config", Path: "/webhooks/high-availability-config", Mutating: true,
		Section: "highAvailabilityConfig", Switch: func(w *config.Webhooks) *bool { return &w.HighAvailabilityConfig.Enabled }, Registered: true,
		Webhooks: func(Cluster) []registration.Webhook {
			return []registration.Webhook{{
				Rules: registration.Rules(
					registration.Rule(registration.OnWrite(), "apps", registration.Versions("v1"), "deployments", "statefulsets"),
					registration.Rule(registration.OnWrite(), "autoscaling", registration.Versions("v2beta1", "v2"), "horizontalpodautoscalers"),
					registration.Rule(registration.OnWrite(), "autoscaling.k8s.io", registration.Versions("v1alpha1"), "hvpas"),
				),
				Namespaces:  registration.Selection{Standard: true, Labels: registration.Labelled(considerHA, "true")},
				Objects:     registration.Selection{Standard: true, Labels: registration.Expressions(registration.Absent(skipHA))},
				MatchPolicy: admissionregistrationv1.Equivalent,
			}}
		},
		Review: func(s Settings) review.Handler {
			return &highavailability.Handler{
				Namespaces: s.Namespaces, Scaling: s.Scaling, LegacyReplicaCriteria: s.Own.LegacyReplicaCriteria,
				DefaultNotReadyTolerationSeconds:    s.Webhooks.HighAvailabilityConfig.DefaultNotReadyTolerationSeconds,
				DefaultUnreachableTolerationSeconds: s.Webhooks.HighAvailabilityConfig.DefaultUnreachableTolerationSeconds,
			}
		},
	}
}
