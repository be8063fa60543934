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
	// maxFirst is the maximum length of the text of the first object, in bytes. It is the maximum length of a condition message in the
	// conventions of Kubernetes. A shorter text is not cut, even if the message exceeds maxMessage.
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
	// Detail is the explanation. For an object that exists, it is the text of the Verdict. For a missing object, it is the reason why the
	// kind of the object cannot be found, or "" if the kind is found.
	Detail string
	// Events is the text about the Events of the object; "" if there are none, or if its kind reports no Events.
	Events string
}

// HealthCondition returns the status, reason and message of the condition ResourcesHealthy. The faults are in the order of
// status.resources; without faults the set is healthy. The first fault determines the reason and the beginning of the message. Further
// faults follow, without their Events, as long as there is room. If there is no room for all faults, the message ends with the number of
// the faults that it leaves out. The message about a single fault is identical to Gardener's message.
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

// ProgressCondition returns the status, reason and message of the condition ResourcesProgressing. The objects with an incomplete rollout
// are in the order of status.resources. The message has the same form as the message of HealthCondition. If there are no such objects, the
// set is not progressing.
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

// list returns the text first, followed by the texts of the elements of all except the first element, as long as there is room, and by the
// number of the elements that are left out. If first has several lines, a new paragraph follows it, so that the further texts do not look
// like a part of its last line.
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
