package config

import (
	"fmt"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate reports every mistake in a defaulted configuration with the path of its field. It returns nil if there is none.
func (c *OperatorConfiguration) Validate() field.ErrorList {
	errs := validateOperatorConnection(c.RuntimeClientConnection, field.NewPath("runtimeClientConnection"))
	errs = append(errs, validateOperatorConnection(c.VirtualClientConnection, field.NewPath("virtualClientConnection"))...)
	errs = append(errs, validateLeaderElection(c.LeaderElection, field.NewPath("leaderElection"))...)
	errs = append(errs, validateOneOf(c.LogLevel, field.NewPath("logLevel"), "debug", "info", "error")...)
	errs = append(errs, validateOneOf(c.LogFormat, field.NewPath("logFormat"), "json", "text")...)
	errs = append(errs, validateServer(c.Server, field.NewPath("server"))...)
	errs = append(errs, validateOperatorPorts(c.Server, field.NewPath("server"))...)
	errs = append(errs, validateFeatureGates(c.FeatureGates, field.NewPath("featureGates"))...)
	errs = append(errs, validateOperatorControllers(c.Controllers, field.NewPath("controllers"))...)
	if c.NodeToleration != nil {
		errs = append(errs, validateNodeToleration(*c.NodeToleration, field.NewPath("nodeToleration"))...)
	}
	return append(errs, validateGardenWebhooks(c, field.NewPath("espalier", "garden", "webhooks"))...)
}

// validateOperatorConnection refuses namespaces, because Gardens and much of what belongs to them are in no namespace.
func validateOperatorConnection(c ClientConnection, at *field.Path) field.ErrorList {
	errs := validateClientConnection(c, at)
	if len(c.Namespaces) > 0 {
		errs = append(errs, field.Forbidden(at.Child("namespaces"), "the operator needs objects of all namespaces"))
	}
	return errs
}

func validateOperatorControllers(c OperatorControllers, at *field.Path) field.ErrorList {
	errs := validateWorkers(c.Garden.ConcurrentSyncs, at.Child("garden"))
	errs = append(errs, validateSyncPeriod(c.Garden.SyncPeriod, at.Child("garden"))...)
	errs = append(errs, validateSyncPeriod(c.GardenCare.SyncPeriod, at.Child("gardenCare"))...)
	network := at.Child("networkPolicy")
	errs = append(errs, validateWorkers(c.NetworkPolicy.ConcurrentSyncs, network)...)
	for i := range c.NetworkPolicy.AdditionalNamespaceSelectors {
		errs = append(errs, metav1validation.ValidateLabelSelector(&c.NetworkPolicy.AdditionalNamespaceSelectors[i],
			metav1validation.LabelSelectorValidationOptions{}, network.Child("additionalNamespaceSelectors").Index(i))...)
	}
	return errs
}

func validateNodeToleration(c NodeToleration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if seconds := c.DefaultNotReadyTolerationSeconds; seconds != nil {
		errs = append(errs, apivalidation.ValidateNonnegativeField(*seconds, at.Child("defaultNotReadyTolerationSeconds"))...)
	}
	if seconds := c.DefaultUnreachableTolerationSeconds; seconds != nil {
		errs = append(errs, apivalidation.ValidateNonnegativeField(*seconds, at.Child("defaultUnreachableTolerationSeconds"))...)
	}
	return errs
}

// validateOperatorPorts reports servers of the process that use the same port, and a wrong port of the webhooks.
func validateOperatorPorts(c Server, at *field.Path) field.ErrorList {
	errs := validateEndpoint(&Endpoint{Port: c.Webhooks.Port}, at.Child("webhooks"), "")
	webhooks := Endpoint{BindAddress: c.Webhooks.BindAddress, Port: c.Webhooks.Port}
	for _, other := range []struct {
		name     string
		endpoint *Endpoint
	}{{"healthProbes", c.HealthProbes}, {"metrics", c.Metrics}} {
		if collide(webhooks, other.endpoint) {
			errs = append(errs,
				field.Invalid(at.Child("webhooks", "port"), webhooks.Port, fmt.Sprintf("is server.%s.port too: change one of both", other.name)))
		}
	}
	if probes := c.HealthProbes; probes != nil && collide(*probes, c.Metrics) {
		errs = append(errs, field.Invalid(at.Child("metrics", "port"), probes.Port, "is server.healthProbes.port too: change one of both"))
	}
	return errs
}

func validateGardenWebhooks(c *OperatorConfiguration, at *field.Path) field.ErrorList {
	errs := validateShutdownDelay(c.Espalier.Garden.Webhooks.ShutdownDelay, at.Child("shutdownDelay"))
	settings := c.Espalier.Garden.Webhooks.SelfManaged
	if settings == nil {
		return errs
	}
	own := at.Child("selfManaged")
	if c.Server.Webhooks.TLS.ServerCertDir != "" {
		errs = append(errs, field.Forbidden(own, "the certificate comes from server.webhooks.tls already: remove one of both"))
	}
	errs = append(errs, validateSelfManagedWebhooks(*settings, own)...)
	if settings.Flavor == FlavorGardenerRuntime || settings.Flavor == FlavorGardenerShoot {
		errs = append(errs, field.NotSupported(own.Child("flavor"), settings.Flavor, []string{FlavorStandalone}))
	}
	if len(settings.ExcludedNamespaces) > 0 {
		errs = append(errs, field.Forbidden(own.Child("excludedNamespaces"), "the webhooks are about Gardens only"))
	}
	return errs
}
