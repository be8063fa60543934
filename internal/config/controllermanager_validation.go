package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// MaxDays limits settings in days: a time.Duration cannot hold many more days.
const MaxDays = 100_000

// minStaleSyncPeriod is the shortest time in which the API server can be expected to answer the requests of a check.
const minStaleSyncPeriod = 100 * time.Millisecond

// Validate reports every mistake in a defaulted configuration with the path of its field. It returns nil if there is none.
func (c *ControllerManagerConfiguration) Validate() field.ErrorList {
	garden := field.NewPath("gardenClientConnection")
	errs := validateClientConnection(c.GardenClientConnection, garden)
	if len(c.GardenClientConnection.Namespaces) > 0 {
		errs = append(errs,
			field.Forbidden(garden.Child("namespaces"), "projects whose namespaces are not seen would look unused and be deleted"))
	}
	errs = append(errs, validateProcess(c.Process())...)
	errs = append(errs, validateProject(c.Controllers.Project, field.NewPath("controllers", "project"))...)
	at := field.NewPath("espalier", "project")
	errs = append(errs, validateEspalierProject(c.Espalier.Project, at)...)
	var webhooks *Endpoint
	if served := c.Espalier.Project.Webhooks; served.Served() {
		webhooks = &Endpoint{BindAddress: served.BindAddress, Port: served.Port}
	}
	return append(errs, validatePorts(webhooks, c.Process().Server, at.Child("webhooks", "port"))...)
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

func validateStaleSyncPeriod(period *metav1.Duration, at *field.Path) field.ErrorList {
	if errs := validatePositive(period, at); len(errs) > 0 {
		return errs
	}
	return validateAtLeast(period, minStaleSyncPeriod, at)
}

func validateQuotas(quotas []ProjectQuota, at *field.Path) field.ErrorList {
	errs := make(field.ErrorList, 0, 2*len(quotas))
	for i, quota := range quotas {
		entry := at.Index(i)
		errs = append(errs, validateQuota(quota.Config, entry.Child("config"))...)
		errs = append(errs, validateSelector(quota.ProjectSelector, entry.Child("projectSelector"))...)
	}
	return errs
}

// validateQuota reports mistakes that every API server refuses, because they would make all projects with this quota fail. It checks the
// form of resource names, but not whether API servers know them: API servers know different sets of resource names.
func validateQuota(quota *corev1.ResourceQuota, at *field.Path) field.ErrorList {
	if quota == nil {
		return field.ErrorList{field.Required(at, "must provide a quota config")}
	}
	errs := metav1validation.ValidateLabels(quota.Labels, at.Child("metadata", "labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(quota.Annotations, at.Child("metadata", "annotations"))...)
	for _, name := range slices.Sorted(maps.Keys(quota.Spec.Hard)) {
		limit, of := quota.Spec.Hard[name], at.Child("spec", "hard").Key(string(name))
		errs = append(errs, invalid(of, string(name), validation.IsQualifiedName(string(name)))...)
		if limit.Sign() < 0 {
			errs = append(errs, field.Invalid(of, limit.String(), apivalidation.IsNegativeErrorMsg))
		}
	}
	return errs
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
	certificate := ""
	if c.TLS.Named() {
		certificate = "tls"
	}
	return append(errs, validateStandaloneWebhooks(c.SelfManaged, certificate, "projects and their namespaces", at.Child("selfManaged"))...)
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
