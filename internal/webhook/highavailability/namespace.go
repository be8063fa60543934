package highavailability

import (
	"slices"
	"strconv"
	"strings"
)

// AnnotationPrefix begins all annotations and labels that this handler reads.
const AnnotationPrefix = "high-availability-config.resources.gardener.cloud/"

// Annotations of namespaces. Administrators set them.
const (
	// FailureToleranceType is the failure that workloads must survive: node, zone or another word; empty if none. A missing
	// annotation is another case than an empty one.
	FailureToleranceType = AnnotationPrefix + "failure-tolerance-type"
	// Zones are the names of the zones that may be used, separated by commas. Missing: none is known.
	Zones = AnnotationPrefix + "zones"
	// ZonePinning, if true, keeps workloads in the zones even where failure-tolerance-type is missing. A value that is not a
	// boolean counts as false, and so does a missing one.
	ZonePinning = AnnotationPrefix + "zone-pinning"
	// ReplicaCriteria, only in legacy mode, selects the rule for replicas: failure-tolerance-type or zones; with any other value
	// replicas are not changed. Missing: the rules without legacy mode.
	ReplicaCriteria = AnnotationPrefix + "replica-criteria"
)

// namespace holds the values of a namespace's annotations.
type namespace struct {
	// tolerance is the failure tolerance type; nil if there is none, which is not the same as empty.
	tolerance *string
	// zones are sorted, each is named once, and no name is empty. Spaces are part of names.
	zones []string
	// pinned keeps Pods in the zones.
	pinned bool
	// criteria is the rule for replicas in legacy mode; nil outside of it.
	criteria *string
}

// surroundings are the facts about an object that are read from other objects.
type surroundings struct {
	namespace
	// scaled is true if an autoscaler scales the workload, up to limit replicas.
	scaled bool
	limit  int32
}

// readNamespace makes sense of annotations. Legacy lets replica-criteria count.
func readNamespace(annotations map[string]string, legacy bool) namespace {
	found := namespace{tolerance: value(annotations, FailureToleranceType), zones: splitZones(annotations[Zones])}
	pinning, err := strconv.ParseBool(annotations[ZonePinning])
	found.pinned = found.tolerance != nil || err == nil && pinning
	if legacy {
		found.criteria = value(annotations, ReplicaCriteria)
	}
	if found.criteria != nil {
		found.pinned = found.tolerance != nil
	}
	return found
}

func value(annotations map[string]string, key string) *string {
	if given, ok := annotations[key]; ok {
		return &given
	}
	return nil
}

func splitZones(list string) []string {
	zones := slices.DeleteFunc(strings.Split(list, ","), func(zone string) bool { return zone == "" })
	slices.Sort(zones)
	return slices.Compact(zones)
}
