package applier

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/clock"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/excerpt"
	rules "github.com/espalier-dev/espalier/internal/health"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
	"github.com/espalier-dev/espalier/internal/managedresource/state"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
)

// codeClaimed marks the condition ResourcesApplied of a set that is applied except for objects that belong to other sets. After a restart,
// the code distinguishes such a set from a set whose last apply was not completed. The reason of the condition, which other programs read,
// is the same for both.
const codeClaimed corev1beta1.ErrorCode = "ESPALIER_OBJECTS_CLAIMED"

// codePostponed marks the condition ResourcesApplied of a set while a pause of repairs delays the repair of an object that was changed
// under the field manager of this controller or of gardener-resource-manager. The managedFields of such an object look as if the
// controller had written first the object and then the status. After a restart, only the code shows that the object must be compared.
const codePostponed corev1beta1.ErrorCode = "ESPALIER_REPAIR_POSTPONED"

// codeDrifted marks the condition ResourcesApplied of a set with drift that is reported and not repaired. After a restart, the code shows
// that managedFields do not prove that an object is in its desired state: another program may have written the object under the field
// manager of this controller.
const codeDrifted corev1beta1.ErrorCode = "ESPALIER_DRIFT_REPORTED"

// hasCode reports whether the condition ResourcesApplied has a code.
func hasCode(conditions []corev1beta1.Condition, code corev1beta1.ErrorCode) bool {
	known := corev1beta1.GetCondition(conditions, resourcesv1alpha1.ResourcesApplied)
	return known != nil && slices.Contains(known.Codes, code)
}

// withVerdicts returns the conditions of a set, updated with verdicts, which are new conditions without times.
func withVerdicts(clk clock.PassiveClock, conditions []corev1beta1.Condition, verdicts ...corev1beta1.Condition) []corev1beta1.Condition {
	updated := make([]corev1beta1.Condition, 0, len(verdicts))
	for _, each := range verdicts {
		condition := corev1beta1.GetOrInitCondition(clk, conditions, each.Type)
		codes := each.Codes
		if slices.Contains(condition.Codes, codeSuspended) && !slices.Contains(codes, codeSuspended) {
			codes = append(slices.Clip(codes), codeSuspended) // only resumed removes it
		}
		updated = append(updated, corev1beta1.UpdatedCondition(clk, condition, each.Status, each.Reason, each.Message, codes...))
	}
	return corev1beta1.MergeConditions(conditions, updated...)
}

// hasVerdict reports whether the conditions already contain v, with the same status, reason, message and codes.
func hasVerdict(conditions []corev1beta1.Condition, v corev1beta1.Condition) bool {
	known := corev1beta1.GetCondition(conditions, v.Type)
	return known != nil && known.Status == v.Status && known.Reason == v.Reason && known.Message == v.Message &&
		slices.Equal(known.Codes, v.Codes)
}

// verdict returns a condition without times.
func verdict(kind corev1beta1.ConditionType, status corev1beta1.ConditionStatus, reason, message string) corev1beta1.Condition {
	return corev1beta1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func applied(status corev1beta1.ConditionStatus, reason, message string) corev1beta1.Condition {
	return verdict(resourcesv1alpha1.ResourcesApplied, status, reason, message)
}

// judge returns the condition about an apply, and an error if a retry may help. faults describe the documents of the set that cannot be
// read. It sorts the failures of the outcome in the order of the set.
func judge(namespace string, objects []*state.Object, faults []string, result *outcome) (corev1beta1.Condition, error) {
	judgement := applied(corev1beta1.ConditionTrue, resourcesv1alpha1.ConditionApplySucceeded, successMessage(objects))
	switch {
	case len(result.failures) > 0:
		message := failureMessage(namespace, result.failures, objects)
		if len(faults) > 0 {
			message += "; " + decodingMessage(faults)
		}
		if len(faults) > 0 || !onlyClaims(result.failures) {
			return applied(corev1beta1.ConditionFalse, resourcesv1alpha1.ConditionApplyFailed, message),
				fmt.Errorf("could not apply all new resources: %s", message)
		}
		judgement = applied(corev1beta1.ConditionFalse, resourcesv1alpha1.ConditionApplyFailed, "held by another ManagedResource: "+message)
		judgement.Codes = []corev1beta1.ErrorCode{codeClaimed}
	case len(faults) > 0:
		judgement = applied(corev1beta1.ConditionFalse, resourcesv1alpha1.ConditionDecodingFailed, decodingMessage(faults))
	}
	if result.postponed {
		judgement.Codes = append(judgement.Codes, codePostponed)
	}
	if isDrifted(objects) {
		judgement.Codes = append(judgement.Codes, codeDrifted)
	}
	return judgement, nil
}

// isDrifted reports whether the drift of an object is reported and not repaired.
func isDrifted(objects []*state.Object) bool {
	return slices.ContainsFunc(objects, func(o *state.Object) bool { return o.Known.Drift != "" })
}

// onlyClaims reports whether all failures are about objects that belong to other sets.
func onlyClaims(failures []failure) bool {
	return !slices.ContainsFunc(failures, func(f failure) bool {
		var claimed *ownership.ClaimedError
		return !errors.As(f.err, &claimed)
	})
}

// changedVerdicts returns the conditions of a set for the time between a change of the set and the result of the apply. During this time,
// the condition ResourcesApplied keeps the reason and the message about an earlier failure.
func changedVerdicts(conditions []corev1beta1.Condition) []corev1beta1.Condition {
	now := applied(corev1beta1.ConditionProgressing, resourcesv1alpha1.ConditionApplyProgressing, resourcesv1alpha1.MessageApplyProgressing)
	if known := corev1beta1.GetCondition(conditions, resourcesv1alpha1.ResourcesApplied); known != nil {
		switch known.Reason {
		case resourcesv1alpha1.ConditionApplyFailed, resourcesv1alpha1.ConditionDeletionFailed, resourcesv1alpha1.ConditionDeletionPending:
			now.Reason, now.Message = known.Reason, known.Message
		}
	}
	return append(checksPending(), now)
}

// checksPending returns the conditions of health and progress until the objects are checked again.
func checksPending() []corev1beta1.Condition {
	reason := resourcesv1alpha1.ConditionHealthChecksPending
	return append(make([]corev1beta1.Condition, 0, 3), // the capacity includes ResourcesApplied
		verdict(resourcesv1alpha1.ResourcesHealthy, corev1beta1.ConditionUnknown, reason, resourcesv1alpha1.MessageHealthChecksPending),
		verdict(resourcesv1alpha1.ResourcesProgressing, corev1beta1.ConditionUnknown, reason, resourcesv1alpha1.MessageProgressingChecksPending))
}

// judgedAsIgnored reports whether the condition ResourcesHealthy says that the set was ignored, and nothing about its objects.
func judgedAsIgnored(conditions []corev1beta1.Condition) bool {
	known := corev1beta1.GetCondition(conditions, resourcesv1alpha1.ResourcesHealthy)
	return known != nil && known.Reason == resourcesv1alpha1.ConditionManagedResourceIgnored
}

// ignoredVerdicts returns the conditions of an ignored set.
func ignoredVerdicts() []corev1beta1.Condition {
	reason, message := resourcesv1alpha1.ConditionManagedResourceIgnored, resourcesv1alpha1.MessageManagedResourceIgnored
	return []corev1beta1.Condition{
		verdict(resourcesv1alpha1.ResourcesHealthy, corev1beta1.ConditionTrue, reason, message),
		verdict(resourcesv1alpha1.ResourcesProgressing, corev1beta1.ConditionFalse, reason, message),
		verdict(resourcesv1alpha1.ResourcesApplied, corev1beta1.ConditionTrue, reason, message),
	}
}

// deletionVerdicts returns the conditions of a set that is being removed. If keep is true, the objects stay in the target, and the
// condition ResourcesApplied does not change. Otherwise, the message about an earlier attempt of the deletion stays in this condition.
func deletionVerdicts(conditions []corev1beta1.Condition, keep bool) []corev1beta1.Condition {
	reason, message := resourcesv1alpha1.ConditionDeletionPending, resourcesv1alpha1.MessageDeletionPending
	verdicts := append(make([]corev1beta1.Condition, 0, 3),
		verdict(resourcesv1alpha1.ResourcesHealthy, corev1beta1.ConditionFalse, reason, message),
		verdict(resourcesv1alpha1.ResourcesProgressing, corev1beta1.ConditionTrue, reason, message))
	if keep {
		return verdicts
	}
	if known := corev1beta1.GetCondition(conditions, resourcesv1alpha1.ResourcesApplied); known != nil {
		switch known.Reason {
		case resourcesv1alpha1.ConditionDeletionPending, resourcesv1alpha1.ConditionDeletionFailed:
			message = known.Message
		}
	}
	return append(verdicts, applied(corev1beta1.ConditionProgressing, reason, message))
}

// allFieldsApplied reports whether the condition ResourcesApplied shows that the last apply was complete and that no object kept a value
// that differs from its manifest.
func allFieldsApplied(conditions []corev1beta1.Condition) bool {
	known := corev1beta1.GetCondition(conditions, resourcesv1alpha1.ResourcesApplied)
	return known != nil && known.Status == corev1beta1.ConditionTrue && known.Message == resourcesv1alpha1.MessageApplySucceeded
}

// completed reports whether the conditions show that the controller carried out the last apply to its end. The controller may have left
// out documents that it cannot read, objects that belong to other sets, and suspended deletions. completed returns false while a pause
// delays the repair of drift that managedFields do not show (codePostponed).
func completed(conditions []corev1beta1.Condition) bool {
	return isComplete(conditions) && !hasCode(conditions, codePostponed)
}

// isComplete is like completed, but ignores codePostponed.
func isComplete(conditions []corev1beta1.Condition) bool {
	known := corev1beta1.GetCondition(conditions, resourcesv1alpha1.ResourcesApplied)
	if known == nil {
		return false
	}
	switch known.Reason {
	case resourcesv1alpha1.ConditionDependenciesPending:
		return slices.Contains(known.Codes, status.CodeContentKept)
	case resourcesv1alpha1.ConditionApplySucceeded:
		return known.Status == corev1beta1.ConditionTrue
	case resourcesv1alpha1.ConditionDecodingFailed, resourcesv1alpha1.ConditionPruningSuspended:
		return true
	case resourcesv1alpha1.ConditionApplyFailed:
		return known.Status == corev1beta1.ConditionFalse && slices.Contains(known.Codes, codeClaimed)
	}
	return false
}

// missingVerdicts returns the condition about objects that are missing and could not be created again. The ManagedResource controller
// reports these objects itself, because the health controller does not check a set that could not be applied. The result is nil if no
// object is missing, or if the conditions already name the missing objects.
func missingVerdicts(conditions []corev1beta1.Condition, items, missing []*state.Object) []corev1beta1.Condition {
	var faults []rules.Fault
	for _, each := range items {
		if slices.Contains(missing, each) {
			faults = append(faults, rules.Fault{Kind: each.Kind.Kind, Namespace: each.Namespace, Name: each.Key.Name, Problem: rules.Missing})
		}
	}
	if len(faults) == 0 {
		return nil
	}
	_, reason, message := rules.HealthCondition(faults)
	known := corev1beta1.GetCondition(conditions, resourcesv1alpha1.ResourcesHealthy)
	if known != nil && known.Status == corev1beta1.ConditionFalse && strings.Contains(known.Message, message) {
		return nil
	}
	return []corev1beta1.Condition{verdict(resourcesv1alpha1.ResourcesHealthy, corev1beta1.ConditionFalse, reason, message)}
}

// keepsFields begins the part of a message about fields that deliberately are not applied.
const keepsFields = "The objects exist and keep these fields, which differ from the manifests: "

// successMessage says that all objects are applied, and lists the fields that deliberately are not applied, and the objects whose drift is
// not repaired.
func successMessage(items []*state.Object) string {
	message := resourcesv1alpha1.MessageApplySucceeded
	var texts, drifted []string
	for _, each := range items {
		if each.Known.Drift != "" {
			drifted = append(drifted, driftText(each))
		}
		if len(each.Known.Unapplied) > 0 {
			name := status.Describe(each.Kind, each.Key.Namespace, each.Key.Name)
			texts = append(texts, fmt.Sprintf("%s (%s)", name, strings.Join(each.Known.Unapplied, ", ")))
		}
	}
	if len(texts) > 0 {
		message += " " + keepsFields + strings.Join(status.Bounded(texts), "; ")
	}
	if len(drifted) > 0 {
		message += " Other clients have changed these objects, which is not reverted: " + strings.Join(status.Bounded(drifted), "; ")
	}
	return message
}

// driftText names an object that differs from its manifest.
func driftText(i *state.Object) string {
	return fmt.Sprintf("%s (%s)", status.Describe(i.Kind, i.Key.Namespace, i.Key.Name), i.Known.Drift)
}

// appliedMessage returns the message of the condition ResourcesApplied.
func appliedMessage(conditions []corev1beta1.Condition) string {
	if known := corev1beta1.GetCondition(conditions, resourcesv1alpha1.ResourcesApplied); known != nil {
		return known.Message
	}
	return ""
}

// decodingMessage lists the documents that could not be read.
func decodingMessage(faults []string) string {
	return fmt.Sprintf("Could not decode all new resources: [%s]", strings.Join(status.Bounded(faults), " "))
}

// failureMessage lists every object that could not be applied, in the order of the set, each with its Secret, data key and index.
func failureMessage(namespace string, failures []failure, items []*state.Object) string {
	position := make(map[*state.Object]int, len(items))
	for number, each := range items {
		position[each] = number
	}
	slices.SortStableFunc(failures, func(a, b failure) int { return position[a.item] - position[b.item] })
	texts := make([]string, 0, len(failures))
	for _, each := range failures {
		at := each.item.Place
		texts = append(texts, fmt.Sprintf("%s (index %d in '%s' in secret '%s/%s')", failureText(each)+each.note, at.Index, at.DataKey, namespace,
			at.Secret))
	}
	return strings.Join(status.Bounded(texts), "; ")
}

const (
	// maxFailureText is the maximum length of the error about one object, in bytes.
	maxFailureText = 1024
	// maxCauseText is the maximum length of each of the causes in a longer error. It leaves room for five of them.
	maxCauseText = 180
)

func failureText(f failure) string {
	text := f.err.Error()
	name := status.Describe(f.item.Kind, f.item.Key.Namespace, f.item.Key.Name)
	if !strings.Contains(text, name) {
		text = fmt.Sprintf("error during apply of object %q: %s", name, text)
	}
	if len(text) > maxFailureText {
		text = withShortCauses(text, f.err)
	}
	return excerpt.Ends(text, maxFailureText)
}

// withShortCauses replaces the message of the API server in a text by a shorter message. The shorter message names the invalid fields, and
// contains the beginning and the end of each cause. It needs the end because the reason is at the end of a cause, behind a quoted value,
// which may be long. If the answer of the API server contains no causes, the text does not change.
func withShortCauses(text string, err error) string {
	answer := status.Answer(err)
	if len(answer.Details.Causes) == 0 {
		return text
	}
	causes := make([]string, 0, len(answer.Details.Causes))
	for _, each := range answer.Details.Causes {
		causes = append(causes, each.Field+": "+excerpt.Ends(each.Message, maxCauseText))
	}
	short := fmt.Sprintf("%s %q is invalid: [%s]", answer.Details.Kind, answer.Details.Name, strings.Join(causes, ", "))
	return strings.Replace(text, answer.Message, short, 1)
}
