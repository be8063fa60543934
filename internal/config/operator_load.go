package config

import (
	"maps"
	"slices"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// Operator decodes a configuration file of garden-operator and sets the defaults. See ResourceManager for the difference between warnings
// and errors. Settings without effect cause a warning, and are not mistakes.
func Operator(data []byte) (*OperatorConfiguration, []Warning, error) {
	doc, warnings, err := parse(data)
	if err != nil {
		return nil, nil, err
	}
	c := &OperatorConfiguration{}
	unknown, errs := decode(doc, c)
	errs = append(errs, checkType(doc, c.TypeMeta, OperatorAPIVersion, OperatorKind)...)
	if len(errs) > 0 {
		return nil, nil, utilerrors.NewAggregate(errs)
	}
	warnings = append(warnings, unknown...)
	warnings = append(warnings, doc.withoutEffect(c)...)
	c.Default()
	return c, warnings, nil
}

// withoutEffect returns a warning for each setting that the process does not act on.
func (d *document) withoutEffect(c *OperatorConfiguration) []Warning {
	var warnings []Warning
	known := FeatureGates()
	for _, name := range slices.Sorted(maps.Keys(c.FeatureGates)) {
		if message := known[name].Warning; message != "" && c.FeatureGates[name] {
			warnings = append(warnings, d.warn(path{"featureGates", name}, message))
		}
	}
	if c.VirtualClientConnection.Kubeconfig != "" {
		warnings = append(warnings,
			d.warn(path{"virtualClientConnection", "kubeconfig"}, "ignored, the operator reads the kubeconfig from a Secret of the Garden"))
	}
	return warnings
}
