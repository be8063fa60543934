package validation

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
)

// Operations returns the errors of the operations in the annotation gardener.cloud/operation: unknown ones, and rotations that the
// phases in the status, the version of Kubernetes or the deletion of the Garden do not allow.
func Operations(g *operatorv1alpha1.Garden) field.ErrorList {
	path := field.NewPath("metadata", "annotations").Key(resourcesv1alpha1.GardenerOperation)
	var asked []operatorv1alpha1.Operation
	for text := range strings.SplitSeq(g.Annotations[resourcesv1alpha1.GardenerOperation], operatorv1alpha1.OperationSeparator) {
		if text = strings.TrimSpace(text); text != "" {
			asked = append(asked, operatorv1alpha1.Operation(text))
		}
	}

	var found field.ErrorList
	for _, operation := range asked {
		if !rotation.Known.Has(operation) {
			found = append(found, field.NotSupported(path, operation, sets.List(rotation.Known)))
			continue
		}
		for _, reason := range denials(operation, g) {
			found = append(found, field.Forbidden(path, reason))
		}
	}
	if slices.Contains(asked, operatorv1alpha1.OperationRotateETCDEncryptionKey) &&
		slices.Contains(asked, operatorv1alpha1.OperationRotateETCDEncryptionKeyStart) {
		found = append(found, field.Forbidden(path, fmt.Sprintf("operations %q and %q cannot be combined",
			operatorv1alpha1.OperationRotateETCDEncryptionKey, operatorv1alpha1.OperationRotateETCDEncryptionKeyStart)))
	}
	return found
}

// Aborts returns the errors of the annotation that aborts rotations: unknown names, and rotations that the phases in the status, the
// version of Kubernetes or the deletion of the Garden do not allow to abort.
func Aborts(g *operatorv1alpha1.Garden) field.ErrorList {
	path := field.NewPath("metadata", "annotations").Key(operatorv1alpha1.AnnotationAbortRotation)
	aborts, unknown := rotation.ParseAborts(g.Annotations[operatorv1alpha1.AnnotationAbortRotation])
	var found field.ErrorList
	for _, name := range unknown {
		found = append(found, field.NotSupported(path, name, rotation.AbortNames()))
	}
	if g.DeletionTimestamp != nil && aborts.Len() > 0 {
		return append(found, field.Forbidden(path, "cannot abort a rotation if garden has deletion timestamp"))
	}
	var rotations *operatorv1alpha1.CredentialsRotation
	if g.Status.Credentials != nil {
		rotations = g.Status.Credentials.Rotation
	}
	oneStep := kubernetesOf(g).AtLeast(rotation.SingleStepEncryptionFrom)
	for _, credential := range sets.List(aborts) {
		if problem := rotation.AbortProblem(rotations, credential, oneStep); problem != "" {
			reason := fmt.Sprintf("cannot abort rotation .status.credentials.rotation.%s: %s", credential, problem)
			found = append(found, field.Forbidden(path, reason))
		}
	}
	return found
}

// denials returns why a known operation is not allowed.
func denials(operation operatorv1alpha1.Operation, g *operatorv1alpha1.Garden) []string {
	change, rotates := rotation.ChangeOf(operation)
	if !rotates {
		return nil
	}
	var reasons []string
	deny := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	oneStep := kubernetesOf(g).AtLeast(rotation.SingleStepEncryptionFrom)
	if oneStep && (operation == operatorv1alpha1.OperationRotateETCDEncryptionKeyStart ||
		operation == operatorv1alpha1.OperationRotateETCDEncryptionKeyComplete) {
		deny("operation %q is not supported for Kubernetes 1.%d and later, use %q",
			operation, rotation.SingleStepEncryptionFrom, operatorv1alpha1.OperationRotateETCDEncryptionKey)
	}
	if g.DeletionTimestamp != nil {
		deny("cannot %s %s if garden has deletion timestamp", change.Step, change.Title)
	}
	phases := rotation.PhasesOf(g)
	for _, credential := range change.Credentials {
		if operation == operatorv1alpha1.OperationRotateCredentialsComplete && oneStep && credential == rotation.ETCDEncryptionKey {
			continue // it completes by itself
		}
		if required, allowed := allows(phases[credential], change.Step); !allowed {
			deny("cannot %s %s if .status.credentials.rotation.%s.phase is not '%s'", change.Step, change.Title, credential, required)
		}
	}
	if change.Step == rotation.Start && slices.Contains(change.Credentials, rotation.ETCDEncryptionKey) &&
		!encryptedResources(g).Equal(sets.New(g.Status.EncryptionAtRest().Resources...)) {
		deny("cannot start %s because a previous encryption configuration change is currently being rolled out", change.Title)
	}
	return reasons
}

// allows returns the phase that a step requires, and whether a phase allows the step. Before the first rotation, the phase
// is empty, which allows a start.
func allows(phase operatorv1alpha1.RotationPhase, s rotation.Step) (required operatorv1alpha1.RotationPhase, allowed bool) {
	if s == rotation.Start {
		return operatorv1alpha1.RotationCompleted, phase == "" || phase == operatorv1alpha1.RotationCompleted
	}
	return operatorv1alpha1.RotationPrepared, phase == operatorv1alpha1.RotationPrepared
}
