package lifecycle

import (
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
	// reason and message are the texts of an Event. Without a reason, there is no Event and the phase does not change.
	reason, message string
	// keepsPhase is true if the phase of the Project does not become Failed.
	keepsPhase bool
}

// failureWithoutEvent returns a failure that is only retried, not reported as an Event; nil if there is no error.
func failureWithoutEvent(s step, err error) *failure {
	if err == nil {
		return nil
	}
	return &failure{step: s, err: err}
}

// newFailure returns a failure of a step that sets up the namespace of a Project, or the objects in it; nil if there is no error.
func newFailure(s step, namespace string, err error) *failure {
	if err == nil {
		return nil
	}
	message := map[step]string{
		stepQuota:          "Error while setting up ResourceQuota: ",
		stepRoles:          fmt.Sprintf("Error while reconciling RBAC resources for namespace %q: ", namespace),
		stepExtensionRoles: "Error while deleting stale RBAC rules for extension roles: ",
		stepPhase:          "Error while trying to mark project as ready: ",
	}[s]
	return &failure{step: s, err: err, reason: reasonReconcileFailed, message: message + oneLine(err), keepsPhase: s == stepPhase}
}

func releaseFailed(namespace string, err error) *failure {
	return &failure{
		step: stepRelease, err: fmt.Errorf("failed to release project namespace: %w", err), reason: reasonDeletionFailed,
		message: fmt.Sprintf("Failed to release project namespace %q: %s", namespace, oneLine(err)),
	}
}

// oneLine returns the text of an error, also of joined errors, on one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
