package highavailability

import (
	"slices"
	"strconv"
	"strings"
)

// AnnotationPrefix is the prefix of all annotations and labels that this handler reads.
const AnnotationPrefix = "high-availability-config.resources.gardener.cloud/"

// Annotations of namespaces. Administrators set them.
const (
	// FailureToleranceType is the failure that workloads must survive: "node", "zone" or another word. It is empty if workloads need not
	// survive a failure. A missing annotation has another meaning than an empty annotation.
	FailureToleranceType = AnnotationPrefix + "failure-tolerance-type"
	// Zones contains the names of the zones that workloads may use, separated by commas. Missing: no zone is known.
	Zones = AnnotationPrefix + "zones"
	// ZonePinning, if true, keeps workloads in the zones of the annotation Zones even if the namespace has no annotation
	// failure-tolerance-type. A missing value, and a value that is not a boolean, count as false. In legacy mode, it has no effect if the
	// namespace has the annotation replica-criteria.
	ZonePinning = AnnotationPrefix + "zone-pinning"
	// ReplicaCriteria has an effect only in legacy mode. It selects the rule for replicas: failure-tolerance-type or zones. With any other
	// value, replicas are not changed. If it is missing, the same rules apply as without legacy mode.
	ReplicaCriteria = AnnotationPrefix + "replica-criteria"
)

// namespace contains the decoded annotations of a namespace.
type namespace struct {
	// tolerance is the failure tolerance type; nil if there is none, which is not the same as empty.
	tolerance *string
	// zones are sorted, without duplicates and empty names. Spaces are part of names.
	zones []string
	// pinned is true if Pods must stay in the zones.
	pinned bool
	// criteria is the rule for replicas in legacy mode; nil without legacy mode.
	criteria *string
}

// surroundings contains the facts about a workload that are read from other objects.
type surroundings struct {
	namespace
	// scaled is true if an autoscaler scales the workload; limit is its maximum number of replicas.
	scaled bool
	limit  int32
}

// readNamespace decodes the annotations of a namespace. If legacy is true, replica-criteria has an effect.
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
