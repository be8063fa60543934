package review

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/admission/patch"
)

// Response is the answer to a Request.
type Response struct {
	Allowed bool
	// Code is the HTTP status code: 200 if allowed.
	Code int32
	// Reason and Message explain Code; Details name the fields of a request that is invalid.
	Reason  metav1.StatusReason
	Message string
	Details *metav1.StatusDetails
	// Patch is a JSON Patch; nil if nothing changes. Only responses that allow a request have one.
	Patch []byte
	// Failed is true for a request that could not be judged, although Code is the code of a refusal, for instance because a look-up was
	// forbidden. Metrics count it as errored.
	Failed bool
	// Warnings are shown to the user by clients such as kubectl: a sentence each, of at most 120 characters.
	Warnings []string
}

// Allowed lets a request pass; the message may be empty.
func Allowed(message string) Response {
	return Response{Allowed: true, Code: http.StatusOK, Message: message}
}

// Denied refuses a request that the user must not make: 403, Forbidden.
func Denied(message string) Response {
	return Response{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message}
}

// Errored refuses a request with an HTTP status code, because it could not be judged.
func Errored(code int32, err error) Response {
	return Response{Code: code, Message: err.Error()}
}

// Undecodable refuses a request whose object could not be read: 400.
func Undecodable(err error) Response { return Errored(http.StatusBadRequest, err) }

// Refused refuses a request because of an error. If the error carries a status, like errors of API servers, the response has this status;
// otherwise it equals the response of Denied.
func Refused(err error) Response {
	var carrier apierrors.APIStatus
	if !errors.As(err, &carrier) {
		return Denied(err.Error())
	}
	status := carrier.Status()
	return Response{Code: status.Code, Reason: status.Reason, Message: status.Message, Details: status.Details}
}

// Unjudged is like Refused, for an error that is not the user's.
func Unjudged(err error) Response {
	response := Refused(err)
	response.Failed = true
	return response
}

// Patched allows a request with a patch, which may be empty. It refuses an object that would need too many changes: 413.
func Patched(changes patch.Patch) Response {
	document, err := changes.Encode()
	if errors.Is(err, patch.ErrTooLarge) {
		return Errored(http.StatusRequestEntityTooLarge, err)
	}
	if err != nil {
		return Errored(http.StatusInternalServerError, err)
	}
	return Response{Allowed: true, Code: http.StatusOK, Patch: document}
}
