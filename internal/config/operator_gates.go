package config

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// FeatureGate is a feature of garden-operator that the configuration can enable or disable.
type FeatureGate struct {
	// Default is the value if the configuration does not set one.
	Default bool
	// Locked features cannot be set to another value than Default.
	Locked bool
	// Warning is logged if the configuration enables the feature; empty: nothing to say.
	Warning string
}

// Names of the feature gates on which the behavior of the operator depends.
const (
	GateDefaultSeccompProfile        = "DefaultSeccompProfile"
	GateHVPA                         = "HVPA"
	GateIstioTLSTermination          = "IstioTLSTermination"
	GateOpenTelemetryCollector       = "OpenTelemetryCollector"
	GateDisableNginxIngressInGarden  = "DisableNginxIngressInGarden"
	GateBackupEntryForGarden         = "BackupEntryForGarden"
	GateVictoriaLogsBackend          = "VictoriaLogsBackend"
	GateRemoveVali                   = "RemoveVali"
	GatePrometheusHealthChecks       = "PrometheusHealthChecks"
	GateDoNotCopyBackupCredentials   = "DoNotCopyBackupCredentials"
	warningNotImplementedFeatureGate = "accepted without effect: this feature is not implemented"
)

// FeatureGates returns the feature gates of garden-operator by their names: those of all releases of Gardener's operator. The features that
// need programs that are not deployed are off by default.
func FeatureGates() map[string]FeatureGate {
	return map[string]FeatureGate{
		GateDefaultSeccompProfile: {},
		GateHVPA: {
			Warning: "accepted without effect: the HVPA controller does not exist anymore, and its objects are removed",
		},
		GateIstioTLSTermination:         {Warning: warningNotImplementedFeatureGate},
		GateOpenTelemetryCollector:      {Warning: warningNotImplementedFeatureGate},
		GateDisableNginxIngressInGarden: {},
		GateBackupEntryForGarden:        {Warning: warningNotImplementedFeatureGate},
		GateVictoriaLogsBackend:         {Warning: warningNotImplementedFeatureGate},
		GateRemoveVali:                  {Warning: warningNotImplementedFeatureGate},
		GatePrometheusHealthChecks:      {Warning: warningNotImplementedFeatureGate},
		GateDoNotCopyBackupCredentials:  {Default: true, Locked: true},
	}
}

// Enabled reports whether a feature gate is enabled. An unknown one is not.
func (c *OperatorConfiguration) Enabled(gate string) bool {
	if value, set := c.FeatureGates[gate]; set {
		return value
	}
	return FeatureGates()[gate].Default
}

func validateFeatureGates(gates map[string]bool, at *field.Path) field.ErrorList {
	known := FeatureGates()
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
	return errs
}
