package health

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	isTrue  = string(metav1.ConditionTrue)
	isFalse = string(metav1.ConditionFalse)
)

// condition is what every API's conditions have in common. The zero value is a condition that is not there.
type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// same reads conditions that need no translation.
func same(c *condition) condition { return *c }

// find returns the first condition of a type, or the zero value.
func find[C any](conditions []C, wanted string, read func(*C) condition) condition {
	for i := range conditions {
		if found := read(&conditions[i]); found.Type == wanted {
			return found
		}
	}
	return condition{}
}

// required explains why a condition that must be True is not.
func required[C any](conditions []C, wanted string, read func(*C) condition) string {
	found := find(conditions, wanted, read)
	if found.Type == "" {
		return missing(wanted)
	}
	return differs(found, isTrue)
}

// optional explains why a condition that must have a status, if it is there at all, has another.
func optional[C any](conditions []C, wanted, expected string, read func(*C) condition) string {
	found := find(conditions, wanted, read)
	if found.Type == "" {
		return ""
	}
	return differs(found, expected)
}

func missing(wanted string) string { return fmt.Sprintf("condition %q is missing", wanted) }

func differs(found condition, expected string) string {
	if found.Status == expected {
		return ""
	}
	return fmt.Sprintf("condition %q has invalid status %s (expected %s) due to %s: %s",
		found.Type, found.Status, expected, found.Reason, found.Message)
}

// outdated explains that a status is older than the object's specification; "" if it is not.
func outdated(seen, generation int64) string {
	if seen >= generation {
		return ""
	}
	return fmt.Sprintf("observed generation outdated (%d/%d)", seen, generation)
}

// updated explains that not all replicas have the newest template; "" if they have.
func updated(replicas, desired int32) string {
	if replicas >= desired {
		return ""
	}
	return fmt.Sprintf("%d of %d replica(s) have been updated", replicas, desired)
}
