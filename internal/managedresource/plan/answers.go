package plan

import (
	"errors"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// lackOfRights matches what an API server says to somebody who may not do what they ask for, unlike the answer of an
// admission check, which has the same reason.
var lackOfRights = regexp.MustCompile(`is forbidden: User ".*" cannot [a-z]+ resource`)

// judge tells whether a failed dry run proves that the write would fail too, and what to say.
func (w *Wanted) judge() (refused bool, text string) {
	err := w.Err
	text = answerText(w.Kind, err)
	switch {
	case w.NamespaceInSet && apierrors.IsNotFound(err) && aboutNamespace(err):
		return false, "its namespace is created by the set itself"
	case lackOfRights.MatchString(err.Error()):
		return !w.OtherRights, text
	case strings.Contains(err.Error(), "does not support dry run"):
		return false, text
	case denial.MatchString(err.Error()):
		return true, text
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err),
		apierrors.IsMethodNotSupported(err), apierrors.IsRequestEntityTooLargeError(err):
		return true, text
	}
	return false, text
}

// aboutNamespace tells whether it is the namespace that was not found.
func aboutNamespace(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}

// denial matches the answers of webhooks and admission policies, which may say anything.
var denial = regexp.MustCompile(`denied (the )?request`)

// notThere matches what an API server says of an object that does not exist.
var notThere = regexp.MustCompile(`^[a-z0-9.-]+ "[^"]*" not found$`)

// tellsNothing tells whether an answer about a Secret can quote no value of it.
func tellsNothing(err error) bool {
	text := err.Error()
	if denial.MatchString(text) {
		return false
	}
	return apierrors.IsForbidden(err) && lackOfRights.MatchString(text) || apierrors.IsNotFound(err) && notThere.MatchString(text)
}

// answerText is what an API server said. Its answers quote values, so that of those about Secrets only the reason and
// the fields at fault are told.
func answerText(kind string, err error) string {
	if kind != "Secret" {
		return err.Error()
	}
	if tellsNothing(err) {
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
