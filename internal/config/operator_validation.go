package config

import (
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate reports every mistake in a defaulted configuration with the path of its field. It returns nil if there is none.
func (c *OperatorConfiguration) Validate() field.ErrorList {
	const whole = "the operator needs objects of all namespaces" // Gardens and many of their objects are in no namespace
	errs := validateWholeConnection(c.RuntimeClientConnection, whole, field.NewPath("runtimeClientConnection"))
	errs = append(errs, validateWholeConnection(c.VirtualClientConnection, whole, field.NewPath("virtualClientConnection"))...)
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
	errs = append(errs, validateGardenBackup(c.Espalier.Garden.Backup, field.NewPath("espalier", "garden", "backup"))...)
	errs = append(errs, validateRotation(c.Espalier.Garden.Rotation, field.NewPath("espalier", "garden", "rotation"))...)
	return append(errs, validateGardenWebhooks(c, field.NewPath("espalier", "garden", "webhooks"))...)
}

// validateGardenBackup does not parse recipients: the package of the backups does.
func validateGardenBackup(c EspalierGardenBackup, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	const folders = "only folders are supported, and no buckets of object stores: mount a bucket as a volume, or send the output of " +
		"garden-operator backup --file - to the bucket"
	switch {
	case c.Folder == "" && len(c.Recipients) > 0:
		errs = append(errs, field.Required(at.Child("folder"), "recipients have no effect without it"))
	case c.Folder == "":
	case strings.Contains(c.Folder, "://"):
		errs = append(errs, field.Invalid(at.Child("folder"), c.Folder, folders))
	case !filepath.IsAbs(c.Folder):
		errs = append(errs, field.Invalid(at.Child("folder"), c.Folder, "must be an absolute path"))
	case len(c.Recipients) == 0:
		errs = append(errs, field.Required(at.Child("recipients"), "without a recipient, the files could be decrypted only with a Secret in the "+
			"cluster that they are to bring back; age-keygen makes one"))
	}
	if c.Interval != nil && c.Interval.Duration < time.Hour {
		errs = append(errs, field.Invalid(at.Child("interval"), c.Interval.Duration.String(), "must be at least 1h"))
	}
	if c.Keep != nil && *c.Keep < 2 {
		errs = append(errs, field.Invalid(at.Child("keep"), *c.Keep, "must be at least 2"))
	}
	return errs
}

func validateRotation(c EspalierRotation, at *field.Path) field.ErrorList {
	const (
		authorities = "users must get the new certificate authorities first: complete their rotation with the operation rotate-ca-complete"
		oneStep     = "this rotation completes by itself"
		unproven    = "nothing proves that tokens of the former key are not used any more: complete the rotation with the operation " +
			"rotate-workload-identity-key-complete"
	)
	errs := validateRotationTime(c.OverdueAfter, at.Child("overdueAfter"))
	for _, each := range []struct {
		name string
		plan EspalierRotationPlan
		// byUser says why the operator does not complete the rotation; empty: it can.
		byUser string
	}{
		{"certificateAuthorities", c.CertificateAuthorities, authorities},
		{"serviceAccountKey", c.ServiceAccountKey, ""},
		{"etcdEncryptionKey", c.ETCDEncryptionKey, oneStep},
		{"observability", c.Observability, oneStep},
		{"workloadIdentityKey", c.WorkloadIdentityKey, unproven},
	} {
		plan, path := each.plan, at.Child(each.name)
		errs = append(errs, validateRotationTime(plan.MaxAge, path.Child("maxAge"))...)
		errs = append(errs, validateRotationTime(plan.CompleteAfter, path.Child("completeAfter"))...)
		if plan.Automatic && plan.MaxAge == nil {
			errs = append(errs, field.Required(path.Child("maxAge"), "automatic starts the rotation at this age"))
		}
		switch {
		case plan.CompleteAfter == nil:
		case each.byUser != "":
			errs = append(errs, field.Forbidden(path.Child("completeAfter"), each.byUser))
		case !plan.Automatic:
			errs = append(errs, field.Forbidden(path.Child("completeAfter"), "set automatic to true, too"))
		}
	}
	return errs
}

func validateRotationTime(d *metav1.Duration, at *field.Path) field.ErrorList {
	if d == nil || d.Duration >= Day {
		return nil
	}
	return field.ErrorList{field.Invalid(at, d.Duration.String(), "must be at least 24h")}
}

// validateWholeConnection validates a connection that must not be restricted to namespaces, for the reason that its error gives.
func validateWholeConnection(c ClientConnection, reason string, at *field.Path) field.ErrorList {
	errs := validateClientConnection(c, at)
	if len(c.Namespaces) > 0 {
		errs = append(errs, field.Forbidden(at.Child("namespaces"), reason))
	}
	return errs
}

func validateOperatorControllers(c OperatorControllers, at *field.Path) field.ErrorList {
	errs := validateWorkers(c.Garden.ConcurrentSyncs, at.Child("garden"))
	errs = append(errs, validateSyncPeriod(c.Garden.SyncPeriod, at.Child("garden"))...)
	errs = append(errs, validateSyncPeriod(c.GardenCare.SyncPeriod, at.Child("gardenCare"))...)
	errs = append(errs, validateWorkers(c.Extension.ConcurrentSyncs, at.Child("extension"))...)
	errs = append(errs, validateSyncPeriod(c.ExtensionCare.SyncPeriod, at.Child("extensionCare"))...)
	errs = append(errs, validateWorkers(c.ExtensionRequiredRuntime.ConcurrentSyncs, at.Child("extensionRequiredRuntime"))...)
	errs = append(errs, validateWorkers(c.ExtensionRequiredVirtual.ConcurrentSyncs, at.Child("extensionRequiredVirtual"))...)
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
