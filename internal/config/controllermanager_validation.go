package config

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// MaxDays limits settings in days: more days would not give a valid date.
const MaxDays = 100_000

// Validate reports every mistake in a defaulted configuration with the path of its field. It returns nil if there is none.
func (c *ControllerManagerConfiguration) Validate() field.ErrorList {
	garden := field.NewPath("gardenClientConnection")
	errs := validateClientConnection(c.GardenClientConnection, garden)
	if len(c.GardenClientConnection.Namespaces) > 0 {
		errs = append(errs,
			field.Forbidden(garden.Child("namespaces"), "projects whose namespaces are not seen would look unused and be deleted"))
	}
	errs = append(errs, validateLeaderElection(c.LeaderElection, field.NewPath("leaderElection"))...)
	errs = append(errs, validateServer(Server{HealthProbes: c.Server.HealthProbes, Metrics: c.Server.Metrics}, field.NewPath("server"))...)
	errs = append(errs, validateOneOf(c.LogLevel, field.NewPath("logLevel"), "debug", "info", "error")...)
	errs = append(errs, validateOneOf(c.LogFormat, field.NewPath("logFormat"), "json", "text")...)
	errs = append(errs, validateProject(c.Controllers.Project, field.NewPath("controllers", "project"))...)
	at := field.NewPath("espalier", "project")
	errs = append(errs, validateEspalierProject(c.Espalier.Project, at)...)
	return append(errs, validateProjectPorts(c, at.Child("webhooks", "port"))...)
}

func validateProject(c ProjectController, at *field.Path) field.ErrorList {
	errs := validateWorkers(c.ConcurrentSyncs, at)
	errs = append(errs, validateDays(c.MinimumLifetimeDays, at.Child("minimumLifetimeDays"))...)
	errs = append(errs, validateDays(c.StaleGracePeriodDays, at.Child("staleGracePeriodDays"))...)
	errs = append(errs, validateDays(c.StaleExpirationTimeDays, at.Child("staleExpirationTimeDays"))...)
	errs = append(errs, validateStaleSyncPeriod(c.StaleSyncPeriod, at.Child("staleSyncPeriod"))...)
	return append(errs, validateQuotas(c.Quotas, at.Child("quotas"))...)
}

// validateDays treats unset days as 0.
func validateDays(days *int, at *field.Path) field.ErrorList {
	if n := ptr.Deref(days, 0); n < 0 || n > MaxDays {
		return field.ErrorList{field.Invalid(at, n, fmt.Sprintf("must be at least 0 and at most %d", MaxDays))}
	}
	return nil
}

func validateEspalierProject(c EspalierProject, at *field.Path) field.ErrorList {
	errs := validateProjectWebhooks(c.Webhooks, at.Child("webhooks"))
	errs = append(errs, validateOneOf(c.StaleDeletion, at.Child("staleDeletion"),
		StaleDeletionDelete, StaleDeletionDryRun, StaleDeletionOff)...)
	if forecast := ptr.Deref(c.StaleForecast, metav1.Duration{}).Duration; forecast < 0 {
		errs = append(errs, field.Invalid(at.Child("staleForecast"), forecast.String(), "must be at least 0s"))
	} else if notice := ptr.Deref(c.StaleDeletionNotice, metav1.Duration{}).Duration; notice < 0 || notice > forecast {
		errs = append(errs,
			field.Invalid(at.Child("staleDeletionNotice"), notice.String(),
				"must be at least 0s and at most staleForecast: without a forecast there is no notice"))
	}
	if c.MaxProjectsPerCreator != nil && *c.MaxProjectsPerCreator < 1 {
		errs = append(errs,
			field.Invalid(at.Child("maxProjectsPerCreator"), *c.MaxProjectsPerCreator, "must be at least 1; leave it out for any number"))
	}
	return errs
}

func validateProjectWebhooks(c EspalierProjectWebhooks, at *field.Path) field.ErrorList {
	errs := validateEndpoint(&Endpoint{Port: c.Port}, at, "")
	errs = append(errs, validateShutdownDelay(c.ShutdownDelay, at.Child("shutdownDelay"))...)
	errs = append(errs, validateProjectTLS(c.TLS, at.Child("tls"))...)
	if c.SelfManaged == nil {
		return errs
	}
	own := at.Child("selfManaged")
	if c.TLS.Named() {
		errs = append(errs, field.Forbidden(own, "the certificate comes from tls already: remove one of both"))
	}
	errs = append(errs, validateSelfManagedWebhooks(*c.SelfManaged, own)...)
	if c.SelfManaged.Flavor == FlavorGardenerRuntime || c.SelfManaged.Flavor == FlavorGardenerShoot {
		errs = append(errs, field.NotSupported(own.Child("flavor"), c.SelfManaged.Flavor, []string{FlavorStandalone}))
	}
	if len(c.SelfManaged.ExcludedNamespaces) > 0 {
		errs = append(errs, field.Forbidden(own.Child("excludedNamespaces"), "the webhooks are about projects and their namespaces only"))
	}
	return errs
}

func validateProjectTLS(c EspalierProjectTLS, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.ServerCertPath != "" && c.ServerKeyPath == "" {
		errs = append(errs, field.Required(at.Child("serverKeyPath"), "must name the key of serverCertPath"))
	}
	if c.ServerKeyPath != "" && c.ServerCertPath == "" {
		errs = append(errs, field.Required(at.Child("serverCertPath"), "must name the certificate of serverKeyPath"))
	}
	if c.ServerCertDir != "" && (c.ServerCertPath != "" || c.ServerKeyPath != "") {
		errs = append(errs,
			field.Forbidden(at.Child("serverCertDir"), "serverCertPath and serverKeyPath name the certificate already: remove one of both"))
	}
	return errs
}

// validateProjectPorts reports servers of one process that use the same port. Older releases served webhooks on the port that is now used
// for metrics.
func validateProjectPorts(c *ControllerManagerConfiguration, at *field.Path) field.ErrorList {
	webhooks := Endpoint{BindAddress: c.Espalier.Project.Webhooks.BindAddress, Port: c.Espalier.Project.Webhooks.Port}
	var errs field.ErrorList
	for _, other := range []struct {
		name     string
		endpoint *Endpoint
	}{{"server.healthProbes.port", c.Server.HealthProbes}, {"server.metrics.port", c.Server.Metrics}} {
		if c.Espalier.Project.Webhooks.Served() && collide(webhooks, other.endpoint) {
			errs = append(errs, field.Invalid(at, webhooks.Port, fmt.Sprintf("is %s too: change one of both", other.name)))
		}
	}
	if probes := c.Server.HealthProbes; probes != nil && collide(*probes, c.Server.Metrics) {
		errs = append(errs,
			field.Invalid(field.NewPath("server", "metrics", "port"), probes.Port, "is server.healthProbes.port too: change one of both"))
	}
	return errs
}

// collide reports whether two servers cannot both listen. Port 0 stands for any free port.
func collide(one Endpoint, other *Endpoint) bool {
	if other == nil || one.Port == 0 || one.Port != other.Port {
		return false
	}
	return one.BindAddress == "" || other.BindAddress == "" || one.BindAddress == other.BindAddress
}
