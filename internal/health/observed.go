package health

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	isTrue  = string(metav1.ConditionTrue)
	isFalse = string(metav1.ConditionFalse)
)

// condition contains the common fields of the conditions of all APIs. The zero value stands for a missing condition.
type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// same returns its argument, for conditions that need no conversion.
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

// required returns the reason why a condition is not True; "" if it is. A missing condition is a fault.
func required[C any](conditions []C, wanted string, read func(*C) condition) string {
	found := find(conditions, wanted, read)
	if found.Type == "" {
		return missing(wanted)
	}
	return differs(found, isTrue)
}

// optional returns the reason why a condition does not have the expected status; "" if it has. A missing condition is no fault.
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

// outdated returns a message if a status is for an older generation of the object; "" if it is current.
func outdated(seen, generation int64) string {
	if seen >= generation {
		return ""
	}
	return fmt.Sprintf("observed generation outdated (%d/%d)", seen, generation)
}

// updated returns a message if not all replicas have the newest template; "" if all have.
func updated(replicas, desired int32) string {
	if replicas >= desired {
		return ""
	}
	return fmt.Sprintf("%d of %d replica(s) have been updated", replicas, desired)
}
