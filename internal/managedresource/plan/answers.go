package plan

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
)

// lackOfRights matches the error of an API server about a missing permission. The error of an admission check has the same reason,
// Forbidden, but another text.
var lackOfRights = regexp.MustCompile(`is forbidden: User ".*" cannot [a-z]+ resource`)

// judge reports whether a failed dry run proves that the write would fail too.
func (w *Wanted) judge() (refused bool) {
	err := w.Err
	switch {
	case lackOfRights.MatchString(err.Error()):
		return !w.OtherRights
	case strings.Contains(err.Error(), noDryRun):
		return false
	case denial.MatchString(err.Error()):
		return true
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err),
		apierrors.IsMethodNotSupported(err), apierrors.IsRequestEntityTooLargeError(err):
		return true
	}
	return false
}

// isUnanswered reports whether a failed dry run shows nothing about the write.
func isUnanswered(err error) bool {
	switch {
	case denial.MatchString(err.Error()):
		return false
	case strings.Contains(err.Error(), noDryRun):
		return true
	}
	var answer apierrors.APIStatus
	return !errors.As(err, &answer) || answer.Status().Code >= http.StatusInternalServerError || apierrors.IsTooManyRequests(err)
}

// noDryRun is a part of the error of an API server for a webhook that has side effects.
const noDryRun = "does not support dry run"

// IsQuotaExceeded reports whether an object was refused only because a quota is used up. The API server checks quotas last.
func IsQuotaExceeded(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota: ") && !denial.MatchString(err.Error())
}

// isAllocated reports whether a Service was refused only because its ports or addresses are allocated for other Services.
func isAllocated(err error) bool {
	causes := status.Answer(err).Details.Causes
	return apierrors.IsInvalid(err) && len(causes) > 0 && !slices.ContainsFunc(causes, func(each metav1.StatusCause) bool {
		return !strings.Contains(each.Message, "is already allocated")
	})
}

// WayOut returns the part of a message that names the annotation with which the user confirms a deletion. It returns "" if the API server
// refused the object for another reason than an admission check, or a webhook that does not support dry runs: then the existing object
// cannot be the reason of the refusal.
func WayOut(refusal error) string {
	text := refusal.Error()
	admission := apierrors.IsForbidden(refusal) && !lackOfRights.MatchString(text)
	if !admission && !denial.MatchString(text) && !strings.Contains(text, noDryRun) {
		return ""
	}
	return fmt.Sprintf("; if only the object that exists is in the way, set the annotation %s=true in the manifest to delete it first",
		resourcesv1alpha1.DeleteUntested)
}

// aboutNamespace reports whether an error of the API server is about a namespace.
func aboutNamespace(err error) bool { return status.Answer(err).Details.Kind == "namespaces" }

// denial matches the errors of webhooks and admission policies, which may contain any text.
var denial = regexp.MustCompile(`denied (the )?request`)

// notThere matches the error of an API server for an object that does not exist.
var notThere = regexp.MustCompile(`^[a-z0-9.-]+ "[^"]*" not found$`)

// quotesNoValue reports whether an error cannot quote a value of the object.
func quotesNoValue(err error) bool {
	text := err.Error()
	if denial.MatchString(text) {
		return false
	}
	return apierrors.IsForbidden(err) && lackOfRights.MatchString(text) || apierrors.IsNotFound(err) && notThere.MatchString(text)
}

// answerText returns the error of the API server with and without values: text is the whole error, in which API servers and webhooks quote
// the values that they refuse. plain is the error without values. Neither contains values of a Secret.
func answerText(kind string, err error) (text, plain string) {
	plain = withoutValues(err)
	if kind == "Secret" {
		return plain, plain
	}
	return err.Error(), plain
}

// withoutValues returns the part of an error that every reader of ConfigMaps may see: its reason and the invalid fields.
func withoutValues(err error) string {
	if quotesNoValue(err) {
		return err.Error()
	}
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return "the request failed"
	}
	parts := []string{string(apierrors.ReasonForError(err))}
	for _, cause := range status.Answer(err).Details.Causes {
		parts = append(parts, cause.Field+" ("+string(cause.Type)+")")
	}
	return "the API server answers " + strings.Join(parts, " ")
}
