package installation

import (
	"strings"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/extension/conditions"
)

// Reasons of the condition Valid.
const (
	// reasonValid goes with Valid=True: the chart can be rendered. The message names the parts of the chart that have no effect, such as hooks
	// and files in crds/.
	reasonValid = "RegistrationValid"
	// reasonNoRegistration goes with Valid=False: the ControllerRegistration does not exist.
	reasonNoRegistration = "RegistrationNotFound"
	// reasonRegistrationRead goes with Valid=Unknown: the ControllerRegistration cannot be read.
	reasonRegistrationRead = "RegistrationReadError"
	// reasonNoSeed goes with Valid=False: the Seed does not exist.
	reasonNoSeed = "SeedNotFound"
	// reasonSeedRead goes with Valid=Unknown: the Seed cannot be read.
	reasonSeedRead = "SeedReadError"
	// reasonChartInvalid goes with Valid=False: the ControllerDeployment does not exist, or does not describe a chart.
	//
	// Remedy: correct the ControllerDeployment.
	reasonChartInvalid = "ChartInformationInvalid"
	// reasonNotPulled goes with Valid=False: the registry does not return the chart, no key of the chart policy has signed the chart, or a
	// Secret for the registry cannot be read.
	//
	// Remedy: see the message. A digest that is recorded in the status is not resolved again; to get another chart, change the reference in
	// the ControllerDeployment.
	reasonNotPulled = "OCIChartCannotBePulled"
	// reasonValues goes with Valid=False: a Secret or ConfigMap in `resources` cannot be read or does not have the required label, or the
	// values cannot be computed.
	//
	// Remedy: correct `resources` or `values` of the ControllerDeployment.
	reasonValues = "RenderingHelmValuesFailed"
	// reasonNotRendered goes with Valid=False: the chart cannot be rendered. The message names the template and never a value.
	//
	// Remedy: correct the chart or its values.
	reasonNotRendered = "ChartCannotBeRendered"
	// reasonPolicy goes with Valid=False: the chart policy forbids the chart or an object in it, or the chart asks for the identity of
	// another extension in the garden. No object of this version of the chart was applied. Gardener does not know this reason.
	//
	// Remedy: change the chart, or the chart policy in the configuration of the program.
	reasonPolicy = "ChartPolicyViolated"
)

// Reasons of the condition Installed.
const (
	// reasonPending goes with Installed=False: the ManagedResource is written, and not applied yet.
	reasonPending = "InstallationPending"
	// reasonFailed goes with Installed=False: an object cannot be written, for example because another object has its name.
	//
	// Remedy: see the message.
	reasonFailed = "InstallationFailed"
	// reasonDeletionPending goes with Installed=False: objects of a deleted installation still exist. The message names them.
	reasonDeletionPending = "DeletionPending"
	// reasonDeletionFailed goes with Installed=False: the objects of an installation that is being deleted cannot be deleted or read, or an
	// object of another program has the name of such an object.
	//
	// Remedy: see the message.
	reasonDeletionFailed = "DeletionFailed"
	// reasonDeleted goes with Installed=False: all objects of a deleted installation are gone from both clusters.
	reasonDeleted = "DeletionSuccessful"
)

func valid(status corev1beta1.ConditionStatus, reason, message string) conditions.Verdict {
	return conditions.Verdict{Type: corev1beta1.ControllerInstallationValid, Status: status, Reason: reason, Message: message}
}

func installed(reason, message string) conditions.Verdict {
	return conditions.Verdict{
		Type: corev1beta1.ControllerInstallationInstalled, Status: corev1beta1.ConditionFalse, Reason: reason, Message: message,
	}
}

// failure is an error that a condition shows.
type failure struct {
	conditions.Verdict
	err error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// invalid returns the failure that makes the condition Valid False.
func invalid(reason string, err error) error {
	return &failure{valid(corev1beta1.ConditionFalse, reason, err.Error()), err}
}

// unreadable returns the failure that makes the condition Valid Unknown.
func unreadable(reason string, err error) error {
	return &failure{valid(corev1beta1.ConditionUnknown, reason, err.Error()), err}
}

// uninstallable returns a failure of the condition Installed.
func uninstallable(reason string, err error) error {
	return &failure{installed(reason, err.Error()), err}
}

// pending returns the verdict about a new installation, or about an installation that succeeds after a failure. An installation that was
// applied before keeps its condition, and the care controller updates this condition from the ManagedResource.
func pending(name string) conditions.Verdict {
	v := installed(reasonPending, `Installation of ManagedResource "`+name+`" is still pending.`)
	v.Initial = true
	return v
}

// rendered returns the verdict about a chart that can be installed. It names the parts of the chart that have no effect.
func rendered(dropped []chart.Dropped) conditions.Verdict {
	message := "chart could be rendered successfully."
	if len(dropped) > 0 {
		texts := make([]string, 0, len(dropped))
		for _, each := range dropped {
			texts = append(texts, each.String())
		}
		message += " Parts of the chart without effect: " + strings.Join(texts, ", ") + "."
	}
	return valid(corev1beta1.ConditionTrue, reasonValid, message)
}
