package config

import "k8s.io/apimachinery/pkg/util/validation/field"

// Validate reports every mistake in a defaulted configuration with the path of its field. It returns nil if there is none.
func (c *OperatorConfiguration) Validate() field.ErrorList {
	errs := validateOperatorConnection(c.RuntimeClientConnection, field.NewPath("runtimeClientConnection"))
	errs = append(errs, validateOperatorConnection(c.VirtualClientConnection, field.NewPath("virtualClientConnection"))...)
	errs = append(errs, validateProcess(c.Process())...)
	webhooks := &Endpoint{BindAddress: c.Server.Webhooks.BindAddress, Port: c.Server.Webhooks.Port}
	errs = append(errs, validateEndpoint(webhooks, field.NewPath("server", "webhooks"), "")...)
	errs = append(errs, validatePorts(webhooks, c.Server, field.NewPath("server", "webhooks", "port"))...)
	errs = append(errs, validateFeatureGates(c.FeatureGates, field.NewPath("featureGates"))...)
	errs = append(errs, validateOperatorControllers(c.Controllers, field.NewPath("controllers"))...)
	if seconds := c.NodeToleration; seconds != nil {
		errs = append(errs, validateTolerationSeconds(seconds.DefaultNotReadyTolerationSeconds, seconds.DefaultUnreachableTolerationSeconds,
			field.NewPath("nodeToleration"))...)
	}
	return append(errs, validateGardenWebhooks(c, field.NewPath("espalier", "garden", "webhooks"))...)
}

// validateOperatorConnection refuses namespaces, because Gardens and many of their objects are in no namespace.
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
	return append(errs, validateSelectors(c.NetworkPolicy.AdditionalNamespaceSelectors, network.Child("additionalNamespaceSelectors"))...)
}

func validateGardenWebhooks(c *OperatorConfiguration, at *field.Path) field.ErrorList {
	errs := validateShutdownDelay(c.Espalier.Garden.Webhooks.ShutdownDelay, at.Child("shutdownDelay"))
	certificate := ""
	if c.Server.Webhooks.TLS.ServerCertDir != "" {
		certificate = "server.webhooks.tls"
	}
	return append(errs, validateStandaloneWebhooks(c.Espalier.Garden.Webhooks.SelfManaged, certificate, "Gardens", at.Child("selfManaged"))...)
}
