// Package conditions writes the conditions of ControllerInstallations. Several controllers write conditions of one object. Each controller
// changes only the conditions that it judges. A write fails with a conflict if another controller has changed the object before.
package conditions

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

// InstallationFailed is the reason of the condition Installed while the installation controller cannot write the objects of an
// installation. Only the installation controller replaces this condition: the ManagedResource of the last successful installation says
// nothing about the failed one.
const InstallationFailed = "InstallationFailed"

// maxMessage bounds messages, in bytes.
const maxMessage = 4096

// Verdict is a condition that a controller gives a ControllerInstallation.
type Verdict struct {
	Type            corev1beta1.ConditionType
	Status          corev1beta1.ConditionStatus
	Reason, Message string
	// Initial means that the verdict only replaces a condition that is Unknown or missing, or that has InstallationFailed.
	Initial bool
}

// Set sets conditions; the same verdicts again change nothing.
func Set(clk clock.PassiveClock, status *corev1beta1.ControllerInstallationStatus, verdicts ...Verdict) {
	for _, v := range verdicts {
		condition := corev1beta1.GetOrInitCondition(clk, status.Conditions, v.Type)
		if v.Initial && condition.Status != corev1beta1.ConditionUnknown && condition.Reason != InstallationFailed {
			continue
		}
		status.Conditions = corev1beta1.MergeConditions(status.Conditions,
			corev1beta1.UpdatedCondition(clk, condition, v.Status, v.Reason, excerpt.Of(v.Message, maxMessage)))
	}
}

// HasFailed reports whether the condition Installed has InstallationFailed.
func HasFailed(ci *corev1beta1.ControllerInstallation) bool {
	condition := corev1beta1.GetCondition(ci.Status.Conditions, corev1beta1.ControllerInstallationInstalled)
	return condition != nil && condition.Reason == InstallationFailed
}

// Record writes a change of the status, unless it changes nothing. Afterwards ci is the object that the API server returned.
func Record(
	ctx context.Context, garden client.Client, ci *corev1beta1.ControllerInstallation,
	change func(*corev1beta1.ControllerInstallationStatus) error,
) error {
	before := ci.DeepCopy()
	if err := change(&ci.Status); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(before.Status, ci.Status) {
		return nil
	}
	if err := garden.Status().Patch(ctx, ci, conflict.MergeFrom(before)); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}
