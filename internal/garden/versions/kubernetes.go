// Package versions has tables of the API versions, feature gates, admission plugins and settings of the supported versions of Kubernetes,
// and of the deployed versions of Gardener and of the vertical pod autoscaler, with functions that answer questions about them. It does not
// depend on Gardens. A new version of one of these programs changes this package only.
package versions

import (
	_ "embed" // for the tables
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/version"
)

// supported are the minor versions of Kubernetes, in the order of the columns of the tables.
var supported = []string{"1.32", "1.33", "1.34", "1.35", "1.36"}

//go:embed apis.txt
var apisText string

//go:embed featuregates.txt
var featureGatesText string

//go:embed plugins.txt
var pluginsText string

// The tables are read once, when the first one is needed. Nothing changes them afterwards.
var tables = sync.OnceValue(func() struct{ apis, featureGates, plugins map[string]entry } {
	return struct{ apis, featureGates, plugins map[string]entry }{parse(apisText), parse(featureGatesText), parse(pluginsText)}
})

// entry is a line of a table: one character for each supported version, where - means that the version does not know the name, and a mark.
type entry struct {
	columns string
	mark    string
}

func parse(text string) map[string]entry {
	entries := map[string]entry{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] == "#" {
			continue
		}
		entries[fields[0]] = entry{columns: fields[1], mark: strings.Join(fields[2:], " ")}
	}
	return entries
}

// Kubernetes is a version of Kubernetes.
type Kubernetes struct {
	text    string
	version *version.Version
}

// ParseKubernetes reads a version of Kubernetes, with or without patch version and leading "v". The version need not be supported.
func ParseKubernetes(text string) (Kubernetes, error) {
	if text != strings.TrimSpace(text) { // the parser accepts spaces, image tags do not
		return Kubernetes{}, fmt.Errorf("parse version %q of Kubernetes: it has spaces", text)
	}
	parse := version.ParseSemantic
	if strings.Count(text, ".") == 1 {
		parse = version.ParseMajorMinor
	}
	parsed, err := parse(text)
	if err != nil {
		return Kubernetes{}, fmt.Errorf("parse version %q of Kubernetes: %w", text, err)
	}
	return Kubernetes{text: text, version: parsed}, nil
}

// KubernetesOf returns a parsed version. Nil is the zero Kubernetes.
func KubernetesOf(parsed *version.Version) Kubernetes {
	if parsed == nil {
		return Kubernetes{}
	}
	return Kubernetes{text: parsed.String(), version: parsed}
}

// SupportedKubernetes returns the supported minor versions for virtual clusters, in ascending order.
func SupportedKubernetes() []string { return slices.Clone(supported) }

// String returns the text that the version was read from.
func (k Kubernetes) String() string { return k.text }

// Supported reports whether virtual clusters may have this version.
func (k Kubernetes) Supported() bool { return k.column() >= 0 }

// AtLeast reports whether the version is of the minor version 1.<minor>, or later. The zero Kubernetes is not.
func (k Kubernetes) AtLeast(minor uint) bool {
	return k.version != nil && (k.version.Major() > 1 || k.version.Major() == 1 && k.version.Minor() >= minor)
}

// LessThan reports whether the version is lower than the other one, where patch versions count. Both must have been parsed.
func (k Kubernetes) LessThan(other Kubernetes) bool { return k.version.LessThan(other.version) }

// SkipsMinor reports whether an update from the other version would leave out a minor version. Both must have been parsed.
func (k Kubernetes) SkipsMinor(from Kubernetes) bool {
	return k.version.Major() > from.version.Major() ||
		k.version.Major() == from.version.Major() && k.version.Minor() > from.version.Minor() && k.version.Minor()-from.version.Minor() > 1
}

// column returns the column of the version in the tables, -1 if it is not supported.
func (k Kubernetes) column() int {
	if k.version == nil {
		return -1
	}
	return slices.Index(supported, fmt.Sprintf("%d.%d", k.version.Major(), k.version.Minor()))
}

// FeatureGate is a feature gate in a version.
type FeatureGate struct {
	// Default is the value of a gate that is not set.
	Default bool
	// Locked is true if the gate cannot have another value.
	Locked bool
}

// Knowledge is the answer to the question whether a version knows a name, such as the name of a feature gate.
type Knowledge int

// The values of Knowledge.
const (
	// Unknown means that no supported version knows the name.
	Unknown Knowledge = iota
	// Elsewhere means that only other supported versions know the name.
	Elsewhere
	// Present means that the version knows the name.
	Present
)

// FeatureGate returns a feature gate of Kubernetes. The gate is the zero value unless it is present.
func (k Kubernetes) FeatureGate(name string) (FeatureGate, Knowledge) {
	column, knowledge := k.find(tables().featureGates, name)
	if knowledge != Present {
		return FeatureGate{}, knowledge
	}
	return gateOf(column), Present
}

func gateOf(column byte) FeatureGate {
	return FeatureGate{Default: column == 't' || column == 'T', Locked: column == 'T' || column == 'F'}
}

// TakesGate reports whether programs of the version start with a value of a feature gate: they have the gate, and it is not locked to the
// other value.
func (k Kubernetes) TakesGate(name string, value bool) bool {
	gate, knowledge := k.FeatureGate(name)
	return knowledge == Present && (!gate.Locked || gate.Default == value)
}

// AdmissionPlugin reports whether kube-apiserver has an admission plugin.
func (k Kubernetes) AdmissionPlugin(name string) Knowledge {
	_, knowledge := k.find(tables().plugins, name)
	return knowledge
}

// API reports whether kube-apiserver can serve an API version, such as v1 or apps/v1, or a resource of it, such as v1/pods or
// apps/v1/deployments.
func (k Kubernetes) API(name string) Knowledge {
	_, knowledge := k.find(tables().apis, name)
	return knowledge
}

func (k Kubernetes) find(table map[string]entry, name string) (byte, Knowledge) {
	found, ok := table[name]
	if !ok {
		return 0, Unknown
	}
	column := k.cell(found.columns)
	if column == '-' {
		return 0, Elsewhere
	}
	return column, Present
}

// cell returns the character of the version in the columns of a row, which is - if the version is not supported.
func (k Kubernetes) cell(columns string) byte {
	if i := k.column(); i >= 0 && i < len(columns) {
		return columns[i]
	}
	return '-'
}
