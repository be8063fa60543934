package lifecycle

import (
	"errors"
	"fmt"
	"strings"
)

// step is the value of a metric's label for the step that failed.
type step string

const (
	stepFinalizer      step = "finalizer"
	stepPhase          step = "phase"
	stepNamespace      step = "namespace"
	stepQuota          step = "quota"
	stepRoles          step = "roles"
	stepExtensionRoles step = "extension-roles"
	stepRelease        step = "release"
)

func steps() []step {
	return []step{stepFinalizer, stepPhase, stepNamespace, stepQuota, stepRoles, stepExtensionRoles, stepRelease}
}

// failure is an error of a step, and how it is reported.
type failure struct {
	step step
	err  error
	// reason and message are those of an Event. Without a reason, there is no Event and the phase does not change.
	reason, message string
	// keepsPhase is true if the Project does not get the phase Failed.
	keepsPhase bool
}

// failureWithoutEvent returns a failure that is only retried, not reported as an Event; nil if there is no error.
func failureWithoutEvent(s step, err error) *failure {
	if err == nil {
		return nil
	}
	return &failure{step: s, err: err}
}

func namespaceFailed(err error) *failure {
	return &failure{step: stepNamespace, err: err, reason: reasonReconcileFailed, message: oneLine(err)}
}

func quotaFailed(err error) *failure {
	return &failure{step: stepQuota, err: err, reason: reasonReconcileFailed, message: "Error while setting up ResourceQuota: " + oneLine(err)}
}

// rolesFailed returns nil if there is no error.
func rolesFailed(namespace string, err error) *failure {
	if err == nil {
		return nil
	}
	return &failure{
		step: stepRoles, err: err, reason: reasonReconcileFailed,
		message: fmt.Sprintf("Error while reconciling RBAC resources for namespace %q: %s", namespace, oneLine(err)),
	}
}

// staleRolesFailed returns nil if there is no error.
func staleRolesFailed(err error) *failure {
	if err == nil {
		return nil
	}
	return &failure{
		step: stepExtensionRoles, err: err, reason: reasonReconcileFailed,
		message: "Error while deleting stale RBAC rules for extension roles: " + oneLine(err),
	}
}

func readyFailed(err error) *failure {
	return &failure{
		step: stepPhase, err: err, reason: reasonReconcileFailed, keepsPhase: true,
		message: "Error while trying to mark project as ready: " + oneLine(err),
	}
}

func releaseFailed(namespace string, err error) *failure {
	err = fmt.Errorf("failed to release project namespace: %w", err)
	return &failure{
		step: stepRelease, err: err, reason: reasonDeletionFailed,
		message: fmt.Sprintf("Failed to release project namespace %q: %s", namespace, oneLine(errors.Unwrap(err))),
	}
}

func unsureOfShoots(namespace string, err error) *failure {
	fault := releaseFailed(namespace, fmt.Errorf("look for Shoots: %w", err))
	fault.keepsPhase = true
	return fault
}

// oneLine returns the text of an error, also of joined errors, on one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
