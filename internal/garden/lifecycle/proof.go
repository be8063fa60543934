package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/proof"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/secrets/manager"
)

// withUnproven writes a condition if an operation failed because a proof is missing: the condition says that a phase of a rotation cannot
// end without this proof. withUnproven returns the error of the operation, joined with the error of the write.
func (r *Reconciler) withUnproven(ctx context.Context, s *status, err error) error {
	missing, isProof := errors.AsType[*proof.Error](err)
	if !isProof || ctx.Err() != nil {
		return err
	}
	failure := s.writeUnlessRotated(ctx, func(status *operatorv1alpha1.GardenStatus) {
		status.Conditions = withProof(r.Clock, status.Conditions, missing.Error())
	})
	if failure != nil {
		return errors.Join(err, fmt.Errorf("record missing proof: %w", failure))
	}
	return err
}

// withProof returns the conditions with the condition RotationUnproven, whose message is the problem of a proof. If the problem is "", it
// returns the conditions without RotationUnproven.
func withProof(now clock.PassiveClock, conditions []corev1beta1.Condition, problem string) []corev1beta1.Condition {
	const kind = operatorv1alpha1.RotationUnproven
	if problem == "" {
		return slices.DeleteFunc(slices.Clone(conditions), func(c corev1beta1.Condition) bool { return c.Type == kind })
	}
	condition := corev1beta1.GetOrInitCondition(now, conditions, kind)
	condition = corev1beta1.UpdatedCondition(
		now, condition, corev1beta1.ConditionTrue, operatorv1alpha1.ReasonProofMissing, excerpt.Of(problem, maxDescription))
	return corev1beta1.MergeConditions(conditions, condition)
}

// deleteProbes deletes the probes of the rotations that an operation has completed. It is called after the status shows that a rotation
// has completed: until then, a repeated operation needs the probes.
func (r *Reconciler) deleteProbes(ctx context.Context, before *operatorv1alpha1.Garden, m *manager.Manager) error {
	completed := components.RotatedSecrets().CompletingTimes(rotationOf(before))
	for _, name := range []string{rotation.ClientProbe, rotation.TokenProbe} {
		probe := m.Newest(name)
		if _, isCompleted := completed[name]; !isCompleted || probe == nil {
			continue
		}
		if err := r.Client.Delete(ctx, probe, client.Preconditions{UID: &probe.UID}); client.IgnoreNotFound(err) != nil {
			return &unrecordedError{fmt.Errorf("delete Secret %s: %w", probe.Name, err)}
		}
	}
	return nil
}
