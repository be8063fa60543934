package config

import (
	"fmt"
	"slices"
	"time"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// renewJitter is the factor by which the leader election of Kubernetes extends the time between its retries. The renew deadline must leave
// time for one retry.
const renewJitter = 1.2

// The shortest accepted periods, and the highest port.
const (
	minSyncPeriod        = 15 * time.Second
	minCacheResyncPeriod = 10 * time.Second
	maxPort              = 65535
)

// Validate reports every mistake in a defaulted configuration with the path of its field. It returns nil if there is none.
func (c *ResourceManagerConfiguration) Validate() field.ErrorList {
	root := field.NewPath("controllers")
	errs := validateClientConnection(c.SourceClientConnection, field.NewPath("sourceClientConnection"))
	if c.TargetClientConnection != nil {
		errs = append(errs, validateClientConnection(*c.TargetClientConnection, field.NewPath("targetClientConnection"))...)
	}
	errs = append(errs, validateProcess(c.Process())...)
	errs = append(errs, validateControllers(c.Controllers, root)...)
	if c.Controllers.TokenInvalidator.Enabled != c.Webhooks.TokenInvalidator.Enabled {
		errs = append(errs,
			field.Forbidden(root.Child("tokenInvalidator"), "controller and webhook for TokenInvalidator must either be both disabled or enabled"))
	}
	if accounts := c.Espalier.ManagedResource.Accounts; accounts != nil && ptr.Deref(accounts.Lockdown, false) &&
		c.Controllers.GarbageCollector.Enabled {
		errs = append(errs, field.Forbidden(root.Child("garbageCollector", "enabled"),
			"it deletes each ConfigMap and Secret that has its label with the rights of the controller; it must be off if "+
				"espalier.managedResource.serviceAccounts.lockdown is true"))
	}
	errs = append(errs, validateWebhooks(c.Webhooks, field.NewPath("webhooks"))...)
	return append(errs, validateEspalier(c.Espalier, field.NewPath("espalier"))...)
}

// validateProcess validates the sections that the files of all binaries have, except for the connections.
func validateProcess(c Process) field.ErrorList {
	server := field.NewPath("server")
	errs := validateLeaderElection(c.LeaderElection, field.NewPath("leaderElection"))
	errs = append(errs,
		validateEndpoint(c.Server.HealthProbes, server.Child("healthProbes"), "must provide health probes server configuration")...)
	errs = append(errs, validateEndpoint(c.Server.Metrics, server.Child("metrics"), "must provide metrics server configuration")...)
	errs = append(errs, validateOneOf(c.LogLevel, field.NewPath("logLevel"), "debug", "info", "error")...)
	return append(errs, validateOneOf(c.LogFormat, field.NewPath("logFormat"), "json", "text")...)
}

func validateClientConnection(c ClientConnection, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Burst < 0 {
		errs = append(errs, field.Invalid(at.Child("burst"), c.Burst, "must be at least 0"))
	}
	for i, namespace := range c.Namespaces {
		if namespace == "" {
			errs = append(errs,
				field.Required(at.Child("namespaces").Index(i), "an empty name would watch all namespaces; leave the list out for that"))
		}
	}
	return append(errs, validateAtLeast(c.CacheResyncPeriod, minCacheResyncPeriod, at.Child("cacheResyncPeriod"))...)
}

func validateLeaderElection(c LeaderElection, at *field.Path) field.ErrorList {
	if !ptr.Deref(c.LeaderElect, true) {
		return nil
	}
	var errs field.ErrorList
	errs = append(errs, validatePositive(&c.LeaseDuration, at.Child("leaseDuration"))...)
	errs = append(errs, validatePositive(&c.RenewDeadline, at.Child("renewDeadline"))...)
	errs = append(errs, validatePositive(&c.RetryPeriod, at.Child("retryPeriod"))...)
	if c.LeaseDuration.Duration <= c.RenewDeadline.Duration {
		errs = append(errs, field.Invalid(at.Child("leaseDuration"), c.LeaseDuration.Duration.String(), "must be greater than renewDeadline"))
	}
	if shortest := time.Duration(renewJitter * float64(c.RetryPeriod.Duration)); c.RenewDeadline.Duration <= shortest {
		errs = append(errs,
			field.Invalid(at.Child("renewDeadline"), c.RenewDeadline.Duration.String(),
				fmt.Sprintf("must be greater than %v times retryPeriod", renewJitter)))
	}
	if c.ResourceLock == "" {
		errs = append(errs, field.Required(at.Child("resourceLock"), "must name the kind of the lock"))
	} else {
		errs = append(errs, validateOneOf(c.ResourceLock, at.Child("resourceLock"), "leases")...)
	}
	if c.ResourceName == "" {
		errs = append(errs, field.Required(at.Child("resourceName"), "must name the lease"))
	}
	if c.ResourceNamespace == "" {
		errs = append(errs, field.Required(at.Child("resourceNamespace"), "must name the namespace of the lease, or leaderElect must be false"))
	}
	return errs
}

func validateEndpoint(c *Endpoint, at *field.Path, missing string) field.ErrorList {
	if c == nil {
		return field.ErrorList{field.Required(at, missing)}
	}
	errs := apivalidation.ValidateNonnegativeField(int64(c.Port), at.Child("port"))
	if c.Port > maxPort {
		errs = append(errs, field.Invalid(at.Child("port"), c.Port, fmt.Sprintf("must be at most %d", maxPort)))
	}
	return errs
}

// validatePorts reports servers of one process that use the same port. The parameter webhooks is nil if the process serves no webhooks.
// The parameter at is the path of the port of the webhooks.
func validatePorts(webhooks *Endpoint, c Server, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, other := range []struct {
		name     string
		endpoint *Endpoint
	}{{"healthProbes", c.HealthProbes}, {"metrics", c.Metrics}} {
		if collide(webhooks, other.endpoint) {
			errs = append(errs, field.Invalid(at, webhooks.Port, fmt.Sprintf("is server.%s.port too: change one of both", other.name)))
		}
	}
	if collide(c.HealthProbes, c.Metrics) {
		errs = append(errs,
			field.Invalid(field.NewPath("server", "metrics", "port"), c.Metrics.Port, "is server.healthProbes.port too: change one of both"))
	}
	return errs
}

// collide reports whether two servers cannot both listen. Port 0 stands for any free port.
func collide(one, other *Endpoint) bool {
	if one == nil || other == nil || one.Port == 0 || one.Port != other.Port {
		return false
	}
	return one.BindAddress == "" || other.BindAddress == "" || one.BindAddress == other.BindAddress
}

// validateAllowed validates the selector of a restriction. The selector must not be empty, because an empty selector would allow all
// namespaces. The parameter toAllow is the end of the message: it names the setting that a user must remove to allow all namespaces.
func validateAllowed(selector *metav1.LabelSelector, toAllow string, at *field.Path) field.ErrorList {
	if selector != nil && len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return field.ErrorList{field.Required(at, "an empty selector would allow all namespaces; to allow "+toAllow)}
	}
	return validateSelector(selector, at)
}

func validateSelector(selector *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, at)
}

func validateSelectors(selectors []metav1.LabelSelector, at *field.Path) field.ErrorList {
	errs := make(field.ErrorList, 0, len(selectors))
	for i := range selectors {
		errs = append(errs, validateSelector(&selectors[i], at.Index(i))...)
	}
	return errs
}

// validateEach returns an error with the message for each value that is not valid.
func validateEach(values []string, at *field.Path, isValid func(string) bool, message string) field.ErrorList {
	var errs field.ErrorList
	for i, value := range values {
		if !isValid(value) {
			errs = append(errs, field.Invalid(at.Index(i), value, message))
		}
	}
	return errs
}

// invalid returns an error about a value for each message.
func invalid(at *field.Path, value string, messages []string) field.ErrorList {
	errs := make(field.ErrorList, 0, len(messages))
	for _, message := range messages {
		errs = append(errs, field.Invalid(at, value, message))
	}
	return errs
}

func validateWorkers(workers *int, section *field.Path) field.ErrorList {
	return validateCount(ptr.Deref(workers, 0), section.Child("concurrentSyncs"))
}

func validateCount[T int | int64](n T, at *field.Path) field.ErrorList {
	if n < 1 {
		return field.ErrorList{field.Invalid(at, n, "must be at least 1")}
	}
	return nil
}

// validateTolerationSeconds validates two fields, both of which may be unset.
func validateTolerationSeconds(notReady, unreachable *int64, at *field.Path) field.ErrorList {
	errs := apivalidation.ValidateNonnegativeField(ptr.Deref(notReady, 0), at.Child("defaultNotReadyTolerationSeconds"))
	return append(errs, apivalidation.ValidateNonnegativeField(ptr.Deref(unreachable, 0), at.Child("defaultUnreachableTolerationSeconds"))...)
}

func validateSyncPeriod(period *metav1.Duration, section *field.Path) field.ErrorList {
	return validateAtLeast(period, minSyncPeriod, section.Child("syncPeriod"))
}

// validateAtLeast treats an unset duration as 0.
func validateAtLeast(d *metav1.Duration, least time.Duration, at *field.Path) field.ErrorList {
	if got := ptr.Deref(d, metav1.Duration{}).Duration; got < least {
		return field.ErrorList{field.Invalid(at, got.String(), "must be at least "+shortDuration(least))}
	}
	return nil
}

func validatePositive(d *metav1.Duration, at *field.Path) field.ErrorList {
	if got := ptr.Deref(d, metav1.Duration{}).Duration; got <= 0 {
		return field.ErrorList{field.Invalid(at, got.String(), "must be greater than zero")}
	}
	return nil
}

func validateOneOf(value string, at *field.Path, allowed ...string) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, allowed)}
}

// shortDuration formats whole minutes in the short form: 1m, not 1m0s.
func shortDuration(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}
