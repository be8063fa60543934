package config

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// featureGate is a feature of garden-operator that the configuration can enable or disable.
type featureGate struct {
	// Default is the value if the configuration does not set one.
	Default bool
	// Locked features cannot be set to another value than Default.
	Locked bool
	// Warning is logged if the configuration enables the feature. Empty: nothing is logged.
	Warning string
}

// Names of the feature gates on which the behavior of the operator depends.
const (
	GateDefaultSeccompProfile = "DefaultSeccompProfile"
	// GateDisableNginxIngressInGarden removes the ingress controller of the runtime cluster.
	GateDisableNginxIngressInGarden = "DisableNginxIngressInGarden"
	// GateBackupEntryForGarden creates a BackupEntry for the backups of the main etcd, beside the BackupBucket.
	GateBackupEntryForGarden = "BackupEntryForGarden"
	// GateOpenTelemetryCollector sends logs through a collector instead of directly to vali.
	GateOpenTelemetryCollector = "OpenTelemetryCollector"
	// GateVictoriaLogsBackend stores logs in VictoriaLogs, too.
	GateVictoriaLogsBackend = "VictoriaLogsBackend"
	// GateRemoveVali removes vali. It needs GateVictoriaLogsBackend.
	GateRemoveVali = "RemoveVali"
	// GatePrometheusHealthChecks asks each instance of Prometheus in the namespace of the Garden whether it is healthy.
	GatePrometheusHealthChecks = "PrometheusHealthChecks"
)

// featureGates returns the feature gates of all releases of Gardener's operator, by name. Features that need programs which the operator
// does not deploy are off by default.
func featureGates() map[string]featureGate {
	const notImplemented = "accepted without effect: this feature is not implemented"
	return map[string]featureGate{
		GateDefaultSeccompProfile: {},
		"HVPA": {
			Warning: "accepted without effect: the HVPA controller does not exist anymore, and its objects are removed",
		},
		"IstioTLSTermination":           {Warning: notImplemented},
		GateOpenTelemetryCollector:      {Default: true},
		GateDisableNginxIngressInGarden: {Default: true},
		GateBackupEntryForGarden:        {Default: true},
		GateVictoriaLogsBackend:         {},
		GateRemoveVali:                  {},
		GatePrometheusHealthChecks:      {},
		"DoNotCopyBackupCredentials":    {Default: true, Locked: true},
	}
}

// Enabled reports whether a feature gate is enabled. An unknown feature gate is not enabled.
func (c *OperatorConfiguration) Enabled(gate string) bool {
	if value, set := c.FeatureGates[gate]; set {
		return value
	}
	return featureGates()[gate].Default
}

func validateFeatureGates(gates map[string]bool, at *field.Path) field.ErrorList {
	known := featureGates()
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		gate, ok := known[name]
		switch {
		case !ok:
			errs = append(errs, field.NotSupported(at, name, slices.Sorted(maps.Keys(known))))
		case gate.Locked && gates[name] != gate.Default:
			errs = append(errs, field.Invalid(at.Key(name), gates[name], "the feature is locked; remove it from the list"))
		}
	}
	return append(errs, validateLogGates(gates, at)...)
}

// validateLogGates reports a configuration that would lose all logs. Only the collector writes to VictoriaLogs.
func validateLogGates(gates map[string]bool, at *field.Path) field.ErrorList {
	c := &OperatorConfiguration{FeatureGates: gates}
	var errs field.ErrorList
	if c.Enabled(GateRemoveVali) && !c.Enabled(GateVictoriaLogsBackend) {
		errs = append(errs, field.Forbidden(at.Key(GateRemoveVali), "logs would have no backend; enable "+GateVictoriaLogsBackend+" too"))
	}
	if c.Enabled(GateVictoriaLogsBackend) && !c.Enabled(GateOpenTelemetryCollector) {
		errs = append(errs, field.Forbidden(at.Key(GateVictoriaLogsBackend), "only the collector writes to it; enable "+
			GateOpenTelemetryCollector+" too"))
	}
	return errs
}
