package health

import (
	"fmt"
	"strings"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

const (
	// maxNamed is the maximum number of objects that a message names.
	maxNamed = 20
	// maxMessage is the maximum length of a message that names several objects, in bytes.
	maxMessage = 4 * 1024
	// maxFirst is the maximum length of the text of the first object, in bytes: the maximum length of a condition message by Kubernetes'
	// conventions. Up to this length the text is not cut, even if the message exceeds maxMessage.
	maxFirst = 32 * 1024
	// maxFurther is the maximum length of the text of each further object, in bytes.
	maxFurther = 256
)

// Problem is a kind of fault of an object in a set.
type Problem int

const (
	// Missing objects do not exist, or their kind is not served.
	Missing Problem = iota + 1
	// Unhealthy objects violate a rule of their kind.
	Unhealthy
	// CheckFailed objects could not be checked.
	CheckFailed
)

// Fault is an object of a set and the reason why it is not healthy.
type Fault struct {
	// Kind, Namespace and Name identify the object; Namespace is "" for a cluster-scoped one.
	Kind, Namespace, Name string
	// Problem is the kind of fault.
	Problem Problem
	// Detail is the explanation: the text of the Verdict, or for a missing object why its kind cannot be found; it may be "" in that case.
	Detail string
	// Events is the block of Events about the object; "" if there are none, or if Events are not reported for its kind.
	Events string
}

// HealthCondition returns the condition ResourcesHealthy for the faults, which are in the order of status.resources; without faults it is
// healthy. The first fault determines the reason and the beginning of the message. The others follow, without Events, as long as there is
// room, and then the number of the remaining ones. The message of a single fault is identical to Gardener's.
func HealthCondition(faults []Fault) (healthy bool, reason, message string) { //nolint:revive // It has the same form as ProgressCondition.
	if len(faults) == 0 {
		return true, resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.MessageResourcesHealthy
	}
	first := faults[0]
	message = first.text(first.Detail)
	if first.Events != "" {
		message += "\n\n" + first.Events
	}
	return false, first.reason(), list(message, faults, func(f Fault) string { return f.text(excerpt.Of(f.Detail, maxFurther)) })
}

func (f Fault) reason() string {
	switch f.Problem {
	case Missing:
		return f.Kind + resourcesv1alpha1.SuffixMissing
	case CheckFailed:
		return resourcesv1alpha1.ConditionHealthCheckError
	default:
		return f.Kind + resourcesv1alpha1.SuffixUnhealthy
	}
}

func (f Fault) text(detail string) string {
	switch f.Problem {
	case Missing:
		text := fmt.Sprintf("Required %s %q in namespace %q is missing", f.Kind, f.Name, f.Namespace)
		if detail == "" {
			return text
		}
		return text + ": " + detail
	case CheckFailed:
		return fmt.Sprintf("Error executing health check for %s %q: %s", f.Kind, f.Namespace+"/"+f.Name, detail)
	default:
		return fmt.Sprintf("%s %q is unhealthy: %s", f.Kind, f.Namespace+"/"+f.Name, detail)
	}
}

// Rolling is an object of a set whose rollout is not complete.
type Rolling struct {
	// Kind, Namespace and Name identify the object.
	Kind, Namespace, Name string
	// Description is the text of the Verdict, or OldPods.
	Description string
}

// ProgressCondition returns the condition ResourcesProgressing for the objects with a rollout in progress, which are in the order of
// status.resources. The message has the form of HealthCondition's. Without such objects the set is rolled out.
func ProgressCondition(rolling []Rolling) (progressing bool, reason, message string) {
	if len(rolling) == 0 {
		return false, resourcesv1alpha1.ConditionResourcesRolledOut, resourcesv1alpha1.MessageResourcesRolledOut
	}
	first := rolling[0]
	message = list(first.text(first.Description), rolling, func(r Rolling) string { return r.text(excerpt.Of(r.Description, maxFurther)) })
	return true, first.Kind + resourcesv1alpha1.SuffixProgressing, message
}

func (r Rolling) text(description string) string {
	return fmt.Sprintf("%s %q is progressing: %s", r.Kind, r.Namespace+"/"+r.Name, description)
}

// list appends the texts of all elements but the first to the first text. After a text with several lines it starts a new paragraph, so
// that the others do not look like a part of the last line.
func list[T any](first string, all []T, text func(T) string) string {
	var message strings.Builder
	_, _ = message.WriteString(excerpt.Of(first, maxFirst))
	separator := "; "
	if strings.Contains(first, "\n") {
		separator = "\n\n"
	}
	for i := 1; i < len(all); i++ {
		rest := fmt.Sprintf("%sand %d more", separator, len(all)-i)
		next := text(all[i])
		if i == maxNamed || message.Len()+len(separator)+len(next)+len(rest) > maxMessage {
			_, _ = message.WriteString(rest)
			break
		}
		_, _ = message.WriteString(separator + next)
		separator = "; "
	}
	return message.String()
}
