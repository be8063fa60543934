package highavailability

import (
	"errors"
	"math"
	"strconv"

	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Replicas is an annotation of workloads and autoscalers: a decimal integer that replaces the computed number of replicas. The user who
// deploys the workloads and autoscalers sets it. If it is missing or empty, the computed number counts.
const Replicas = AnnotationPrefix + "replicas"

// controller is the type of components in which only one replica is active at a time.
const controller = "controller"

// metadata is the part of an object's metadata that the handler reads. The user who deploys the object sets it.
type metadata struct {
	Labels struct {
		// Type is controller, or any other word for workloads that serve requests. Missing or empty: replicas are not changed.
		Type string `json:"high-availability-config.resources.gardener.cloud/type"`
	} `json:"labels"`
	Annotations struct {
		Replicas string `json:"high-availability-config.resources.gardener.cloud/replicas"`
	} `json:"annotations"`
}

// countReplicas returns how many replicas a component should have. The result wanted is false if the handler must not set replicas: the
// workload is hibernated (current is 0), it has no type, or in legacy mode the annotation replica-criteria has an unknown value. If the
// annotation Replicas is not a number, countReplicas returns an error.
func countReplicas(current int32, component metadata, in namespace) (count int32, wanted bool, err error) {
	kind, override := component.Labels.Type, component.Annotations.Replicas
	if current == 0 || kind == "" {
		return 0, false, nil
	}
	if override != "" {
		count, err = parseReplicas(override)
		return count, err == nil, err
	}
	if in.criteria != nil {
		count, wanted = countByCriteria(*in.criteria, kind, in)
		return count, wanted, nil
	}
	if kind == controller && in.tolerance != nil && *in.tolerance == "" {
		return 1, true, nil
	}
	return 2, true, nil
}

// parseReplicas accepts any 32-bit integer: the API server validates negative ones.
func parseReplicas(text string) (int32, error) {
	count, err := strconv.Atoi(text)
	if err == nil && (count < math.MinInt32 || count > math.MaxInt32) {
		err = &strconv.NumError{Func: "Atoi", Num: text, Err: strconv.ErrRange}
	}
	if wrong, ok := errors.AsType[*strconv.NumError](err); ok {
		wrong.Num = excerpt.Quoted(wrong.Num)
	}
	if err != nil {
		return 0, err // the response contains this text
	}
	return int32(count), nil //nolint:gosec // checked above
}

// countByCriteria returns the number of replicas in legacy mode.
func countByCriteria(criteria, kind string, in namespace) (count int32, wanted bool) {
	switch criteria {
	case "failure-tolerance-type":
		tolerance := ""
		if in.tolerance != nil {
			tolerance = *in.tolerance
		}
		switch {
		case kind == controller && tolerance == "":
			return 1, true
		case kind != controller && tolerance == toleranceZone:
			return 3, true
		}
		return 2, true
	case "zones":
		if kind != controller && len(in.zones) >= 3 {
			return 3, true
		}
		return 2, true
	}
	return 0, false
}

// scale returns the number of replicas of a workload. If an autoscaler scales the workload, a higher current number stays.
func scale(current, computed int32, scaled bool) int32 {
	if scaled {
		return max(current, computed)
	}
	return computed
}
