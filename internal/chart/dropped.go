package chart

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"

	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Part is a kind of thing in a chart that has no effect without Helm's own client.
type Part string

// Parts that are dropped.
const (
	// PartHook is an object with the annotation helm.sh/hook, which Helm applies at certain times.
	PartHook Part = "hook"
	// PartTest is an object that Helm applies for its tests.
	PartTest Part = "test"
	// PartDefinitions is a file in crds/, which Helm applies before the chart and never changes.
	PartDefinitions Part = "crds"
	// PartNotes is the text that Helm prints after an installation.
	PartNotes Part = "notes"
	// PartLookup is a template that uses the function lookup, which returns nothing: templates do not read the cluster.
	PartLookup Part = "lookup"
	// PartDNS is a template that uses the function getHostByName, which returns nothing.
	PartDNS Part = "dns"
	// PartCapability is an API version that a template asks for, and that is neither one of Kubernetes' own versions nor in
	// Release.APIVersions. The template gets the answer that the version is absent, because definitions in the cluster are not read.
	PartCapability Part = "capability"
)

// Dropped names a part of a chart that has no effect.
type Dropped struct {
	Part Part   `json:"part"`
	Name string `json:"name"`
}

// String returns the entry as a part of a sentence.
func (d Dropped) String() string { return string(d.Part) + " " + d.Name }

const (
	// maxDropped bounds the list, because a condition contains it.
	maxDropped = 50
	// maxName bounds each of its names, in bytes.
	maxName = 256
)

func sortDropped(list []Dropped) []Dropped {
	for i := range list {
		list[i].Name = excerpt.Of(list[i].Name, maxName)
	}
	slices.SortFunc(list, func(a, b Dropped) int { return cmp.Or(cmp.Compare(a.Part, b.Part), cmp.Compare(a.Name, b.Name)) })
	list = slices.Compact(list)
	if more := len(list) - maxDropped; more > 0 {
		list = append(list[:maxDropped:maxDropped], Dropped{Part: "more", Name: fmt.Sprintf("parts: %d", more)})
	}
	return list
}

var (
	comment = regexp.MustCompile(`(?s)\{\{-?\s*/\*.*?\*/\s*-?\}\}`)
	// called returns a pattern for actions of a template that call a function. It ignores the name of the function in strings.
	called = func(function string) *regexp.Regexp {
		return regexp.MustCompile(`\{\{(?:[^"` + "`" + `}]|"(?:\\.|[^"\\])*"|` + "`[^`]*`" + `)*?\b` + function + `\s`)
	}
	lookup     = called("lookup")
	hostByName = called("getHostByName")
	capability = regexp.MustCompile(`\.Capabilities\.APIVersions\.Has\s+\(?\s*"([^"]+)"`)
)

// ignored returns the parts of a chart other than hooks that have no effect. It searches the text of the templates, so it also names a
// template that calls a function only with other values.
func ignored(chart *chartv2.Chart, files, sources map[string]string, versions common.VersionSet) []Dropped {
	var list []Dropped
	for _, definitions := range chart.CRDObjects() {
		list = append(list, Dropped{Part: PartDefinitions, Name: definitions.Filename})
	}
	for name := range files {
		if strings.HasSuffix(name, notes) {
			list = append(list, Dropped{Part: PartNotes, Name: name})
		}
	}
	for name, source := range sources {
		source = comment.ReplaceAllString(source, "")
		if lookup.MatchString(source) {
			list = append(list, Dropped{Part: PartLookup, Name: name})
		}
		if hostByName.MatchString(source) {
			list = append(list, Dropped{Part: PartDNS, Name: name})
		}
		for _, match := range capability.FindAllStringSubmatch(source, -1) {
			if !versions.Has(match[1]) {
				list = append(list, Dropped{Part: PartCapability, Name: match[1] + " in " + name})
			}
		}
	}
	return list
}
