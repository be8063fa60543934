package managedresources

import (
	"errors"
	"regexp"
	"slices"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// invalidManifest matches the error of an apply that the API server has rejected as invalid, which only the author of the manifest can fix.
var invalidManifest = regexp.MustCompile(`(?i)(error during apply of object .* is invalid:)`)

// CodedError is an error with codes by which programs recognize the kind of error.
type CodedError struct {
	// Err is the error.
	Err error
	// Codes classify the error.
	Codes []corev1beta1.ErrorCode
}

// Error returns the text of the error, without the codes.
func (e *CodedError) Error() string { return e.Err.Error() }

// Unwrap returns the error without codes.
func (e *CodedError) Unwrap() error { return e.Err }

// ErrorCodes returns the codes of the first error with codes that err wraps, or nil if there is none.
func ErrorCodes(err error) []corev1beta1.ErrorCode {
	var coded *CodedError
	if !errors.As(err, &coded) {
		return nil
	}
	return slices.Clone(coded.Codes)
}

// withCodes adds the codes that follow from the text of err. Without such codes, it returns err unchanged.
func withCodes(err error) error {
	if !invalidManifest.MatchString(err.Error()) {
		return err
	}
	return &CodedError{Err: err, Codes: []corev1beta1.ErrorCode{corev1beta1.ErrorConfigurationProblem}}
}
