package health

import (
	"fmt"
	"strings"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

const (
	// maxNamed is how many objects a message names.
	maxNamed = 20
	// maxMessage is how many bytes a message has that names several objects.
	maxMessage = 4 * 1024
	// maxFirst is how many bytes of a message the first object's text may take: as many as the message of a condition may
	// have by Kubernetes' conventions. Up to there the text is told as it is, however long the list becomes by that.
	maxFirst = 32 * 1024
	// maxFurther is how many bytes of what is wrong with each further object are told.
	maxFurther = 256
)

// Problem is what can be wrong with an object of a set.
type Problem int

const (
	// Missing objects do not exist, or their kind is not served.
	Missing Problem = iota + 1
	// Unhealthy objects break a rule of their kind.
	Unhealthy
	// CheckFailed objects could not be judged.
	CheckFailed
)

// Fault is one object of a set with what is wrong with it.
type Fault struct {
	// Kind, Namespace and Name identify the object; Namespace is "" for a cluster-scoped one.
	Kind, Namespace, Name string
	// Problem says what is wrong.
	Problem Problem
	// Detail explains it: the text of the Verdict, or for a missing object why its kind cannot be found; may be "" then.
	Detail string
	// Events is the block of Events about the object; "" if there are none, or none are told for its kind.
	Events string
}

// HealthCondition composes ResourcesHealthy from the faults in the order of status.resources; without faults it is healthy.
// The first fault makes the reason and the beginning of the message. Every other one follows, without its Events, as long
// as there is room; of the rest the number is told. A single fault's message is Gardener's to the byte.
func HealthCondition(faults []Fault) (healthy bool, reason, message string) { //nolint:revive // It is the pair of ProgressCondition.
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

// Rolling is one object of a set whose rollout is not over.
type Rolling struct {
	// Kind, Namespace and Name identify the object.
	Kind, Namespace, Name string
	// Description is the text of the Verdict, or OldPods.
	Description string
}

// ProgressCondition composes ResourcesProgressing from the objects that roll out, in the order of status.resources, the way
// HealthCondition does; without any the set is rolled out.
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

// list puts the texts of all elements but the first behind the first one's. Behind several lines they begin a paragraph of
// their own, so that they do not look like part of the last line.
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
