package plan

import (
	"errors"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// lackOfRights matches the error of an API server for a missing right. The error of an admission check has the same reason, but another
// text.
var lackOfRights = regexp.MustCompile(`is forbidden: User ".*" cannot [a-z]+ resource`)

// judge reports whether a failed dry run proves that the write would fail too.
func (w *Wanted) judge() (refused bool) {
	err := w.Err
	switch {
	case lackOfRights.MatchString(err.Error()):
		return !w.OtherRights
	case strings.Contains(err.Error(), "does not support dry run"):
		return false
	case denial.MatchString(err.Error()):
		return true
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err),
		apierrors.IsMethodNotSupported(err), apierrors.IsRequestEntityTooLargeError(err):
		return true
	}
	return false
}

// aboutNamespace reports whether the namespace was not found.
func aboutNamespace(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}

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

// answerText returns the error of the API server with and without values: API servers and webhooks quote the values that they refuse.
// Neither text contains the values of a Secret.
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
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "the request failed"
	}
	parts := []string{string(apierrors.ReasonForError(err))}
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			parts = append(parts, cause.Field+" ("+string(cause.Type)+")")
		}
	}
	return "the API server answers " + strings.Join(parts, " ")
}
