package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
)

// Descriptions of operations.
const (
	reconciliationStarts = "Reconciliation of Garden cluster initialized."
	deletionStarts       = "Deletion of Garden cluster in progress."
	reconciled           = "Garden cluster has been successfully reconciled."
	retried              = " Operation will be retried."
)

// status writes the parts of the status of a Garden that belong to operations. Each write is a merge patch that contains only the changed
// fields, because the care controller may write conditions at the same time. Only one goroutine may use a value of this type.
type status struct {
	client client.Client
	clock  clock.PassiveClock
	// garden is the Garden as the API server returned it last.
	garden *operatorv1alpha1.Garden
	// begun is the Garden at the start of the operation, nil before.
	begun *operatorv1alpha1.Garden
	// tasks are the tasks of a flow that failed, for the record of the error.
	tasks []operatorv1alpha1.Task
	// refused are sentences about operations that the user requests, and that have no effect.
	refused []string
	// clocks is the difference between our clock and the clock of the API server at the start of the operation, nil if there is none.
	clocks *clockFault
}

// description returns the description of an operation, followed by the operations of the user that have no effect.
func (s *status) description(text string) string {
	return strings.Join(append([]string{text}, s.refused...), " ")
}

// write changes the status. If locked is true, the write fails with a conflict if the Garden was changed since it was read.
func (s *status) write(ctx context.Context, locked bool, change func(*operatorv1alpha1.GardenStatus)) error {
	changed := s.garden.DeepCopy()
	change(&changed.Status)
	patch := client.MergeFrom(s.garden)
	if locked {
		patch = conflict.MergeFrom(s.garden)
	}
	if err := s.client.Status().Patch(ctx, changed, patch); err != nil {
		return err
	}
	s.garden = changed
	return nil
}

// begin records the start of an operation. Then it removes the operations that it has handled from the annotation of the Garden, and also
// the annotation that aborts rotations. If the process stops in between, the next process handles the same requests again, which changes
// nothing.
func (r *Reconciler) begin(ctx context.Context, s *status) error {
	annotation := s.garden.Annotations[gardenerOperation]
	operations, rest := rotation.Parse(annotation)
	abort, aborts := s.garden.Annotations[operatorv1alpha1.AnnotationAbortRotation]
	now := metav1.NewTime(r.Clock.Now()).Rfc3339Copy()
	scheduled, err := r.scheduled(ctx, s, operations)
	if err != nil {
		return err
	}
	facts := rotation.Facts{Operations: operations.Union(scheduled), Now: now, SingleStepEncryption: rotatesEncryptionInOneStep(s.garden)}
	facts.ClockProblem, facts.SkippedProof = s.clocks.problem(), skippedProof(s.garden)
	facts.Aborts, facts.UnknownAborts = rotation.ParseAborts(abort)
	facts.WantedProvider, facts.CurrentProvider = providers(s.garden)
	err = r.checkRotations(ctx, s, &facts)
	if err != nil {
		return err
	}
	before := rotationOf(s.garden)
	next, refused := rotation.Begin(before, facts)
	for _, each := range refused {
		s.refused = append(s.refused, excerpt.Of(each, maxNote))
	}
	err = s.write(ctx, true, func(status *operatorv1alpha1.GardenStatus) {
		status.LastOperation = &operatorv1alpha1.LastOperation{
			Type: operationType(s.garden), State: operatorv1alpha1.LastOperationProcessing, Description: s.description(startOf(s.garden)),
			LastUpdateTime: now,
		}
		status.Gardener, status.ObservedGeneration, status.Tasks = ptr.To(r.Identity), s.garden.Generation, nil
		status.Conditions = withClock(withoutPause(status.Conditions), s.clocks, r.Clock)
		status.AdvertisedAddresses = advertisedAddresses(s.garden)
		setRotation(status, next)
	})
	if err != nil {
		return fmt.Errorf("record start of operation: %w", err)
	}
	s.begun = s.garden.DeepCopy()
	facts.Operations = operations
	r.reportRequests(s, before, facts, scheduled)
	if operations.Len() == 0 && !aborts {
		return nil
	}
	return r.removeOperations(ctx, s, rest)
}

// checkRotations checks whether operations may start, complete or abort rotations, and stores the problems in facts.
func (r *Reconciler) checkRotations(ctx context.Context, s *status, facts *rotation.Facts) (err error) {
	all, ofSeeds := rotation.Starts(rotationOf(s.garden), facts.Operations)
	plane := r.controlPlane(s.garden, nil, values.Values{Operator: r.Operator})
	if all.Len() > 0 {
		if facts.StartProblem, err = plane.StartProblem(ctx); err != nil {
			return err
		}
	}
	if ofSeeds.Len() > 0 {
		facts.SeedProblem = plane.SeedProblem(ctx)
	}
	if aborted := rotation.Aborts(rotationOf(s.garden), facts.Aborts, facts.SingleStepEncryption); len(aborted) > 0 {
		if facts.AbortProblems, err = r.abortProblems(ctx, s, aborted); err != nil {
			return err
		}
	}
	if rotation.CompletesAuthorities(rotationOf(s.garden), facts.Operations).Len() > 0 ||
		rotation.AwaitsEnd(rotationOf(s.garden), rotation.CertificateAuthorities) {
		if facts.ClientProblem, err = r.clientProblem(ctx, s.garden); err != nil {
			return err
		}
	}
	facts.NoAccess = r.lacksAccess(ctx, s.garden)
	return ctx.Err() // the process ends, and the next one asks again
}

// lacksAccess reports whether the operator has no token for the virtual cluster although it needs a token to end a rotation of the
// encryption key. In a reconciliation, the operator gets a token after kube-apiserver is deployed.
func (r *Reconciler) lacksAccess(ctx context.Context, garden *operatorv1alpha1.Garden) bool {
	phase := rotation.PhasesOf(garden)[rotation.ETCDEncryptionKey]
	if phase != operatorv1alpha1.RotationPrepared && phase != operatorv1alpha1.RotationCompleting {
		return false
	}
	_, err := r.Connection.Clients(ctx)
	return errors.Is(err, virtual.ErrNoToken) || apierrors.IsNotFound(err)
}

// removeOperations leaves only the values in the annotation that are no operations, and removes the annotation that aborts rotations. It
// fails with a conflict if the user has changed the Garden in the meantime.
func (r *Reconciler) removeOperations(ctx context.Context, s *status, rest string) error {
	changed := s.garden.DeepCopy()
	delete(changed.Annotations, gardenerOperation)
	delete(changed.Annotations, operatorv1alpha1.AnnotationAbortRotation)
	if rest != "" {
		changed.Annotations[gardenerOperation] = rest
	}
	if err := r.Client.Patch(ctx, changed, conflict.MergeFrom(s.garden)); err != nil {
		return fmt.Errorf("remove operations from annotations: %w", err)
	}
	s.garden = changed
	return nil
}

// report records the progress of the flow. A report that cannot be written is only logged.
func (s *status) report(ctx context.Context, progress flow.Status) {
	err := s.write(ctx, false, func(status *operatorv1alpha1.GardenStatus) {
		status.LastOperation.Progress = int32(min(progress.Progress, 100)) //nolint:gosec // it is a percentage
		status.LastOperation.Description = s.description(excerpt.Of(describe(progress), maxDescription))
		status.LastOperation.LastUpdateTime = metav1.NewTime(s.clock.Now())
		status.Tasks = tasksOf(progress)
	})
	if err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "Could not report reconciliation progress")
	}
}

// succeeded records the end of a reconciliation. It fails if a rotation has begun or advanced since the operation started, because this
// operation has not used the credentials of that rotation. The parameter encrypted contains the resources that are encrypted from now on;
// nil: as before. The result again is true if the next reconciliation must follow at once.
func (s *status) succeeded(
	ctx context.Context, tasks []operatorv1alpha1.Task, encrypted *operatorv1alpha1.EncryptionAtRest,
) (again bool, err error) {
	now := metav1.NewTime(s.clock.Now()).Rfc3339Copy()
	next, again := rotation.End(rotationOf(s.garden), now)
	err = s.writeUnlessRotated(ctx, func(status *operatorv1alpha1.GardenStatus) {
		status.LastOperation = &operatorv1alpha1.LastOperation{
			Type: operatorv1alpha1.LastOperationReconcile, State: operatorv1alpha1.LastOperationSucceeded, Progress: 100,
			Description: s.description(reconciled), LastUpdateTime: now,
		}
		status.Tasks, status.Conditions = tasks, withProof(s.clock, status.Conditions, "")
		setRotation(status, next)
		encryptionOf(encrypted)(status)
	})
	if err != nil {
		// The operation itself has succeeded, so the status gets no error.
		return false, &unrecordedError{fmt.Errorf("record success: %w", err)}
	}
	return again, nil
}

// writeUnlessRotated changes the status with an optimistic lock. After a conflict, it reads the Garden and tries again. It fails if the
// rotations in the status are not the same as at the start of the operation. It also compares them before the first write: the method
// report writes without a lock, so s.garden may already contain changes of another operation, and then the write causes no conflict.
func (s *status) writeUnlessRotated(ctx context.Context, change func(*operatorv1alpha1.GardenStatus)) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if s.garden.UID != s.begun.UID || !equality.Semantic.DeepEqual(rotationOf(s.garden), rotationOf(s.begun)) {
			return fmt.Errorf("another operation has changed the rotation of credentials in the status of Garden %s", s.garden.Name)
		}
		err := s.write(ctx, true, change)
		if !apierrors.IsConflict(err) {
			return err
		}
		live := &operatorv1alpha1.Garden{}
		if failure := s.client.Get(ctx, client.ObjectKeyFromObject(s.garden), live); failure != nil {
			return fmt.Errorf("read Garden again: %w", failure)
		}
		s.garden = live
		return err
	})
}

// encryptionOf returns a change of a status that records the encrypted resources; nil: as before.
func encryptionOf(encrypted *operatorv1alpha1.EncryptionAtRest) func(*operatorv1alpha1.GardenStatus) {
	return func(status *operatorv1alpha1.GardenStatus) {
		if encrypted == nil {
			return
		}
		if status.Credentials == nil {
			status.Credentials = &operatorv1alpha1.Credentials{}
		}
		status.Credentials.EncryptionAtRest = encrypted
	}
}

// unrecordedError is an error that is returned without being recorded in the status.
type unrecordedError struct{ error }

func (e *unrecordedError) Unwrap() error { return e.error }

// failed records an error, and returns it. Progress stays as it was reported last.
func (s *status) failed(ctx context.Context, identity operatorv1alpha1.OperatorIdentity, cause error) error {
	err := s.write(ctx, false, func(status *operatorv1alpha1.GardenStatus) {
		last := ptr.Deref(status.LastOperation, operatorv1alpha1.LastOperation{})
		last.Type, last.State, last.LastUpdateTime = operationType(s.garden), operatorv1alpha1.LastOperationError, metav1.NewTime(s.clock.Now())
		last.Description = s.description(excerpt.Of(cause.Error(), maxDescription) + retried)
		status.Gardener, status.LastOperation = &identity, &last
		if s.tasks != nil {
			status.Tasks = s.tasks
		}
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed updating last operation to state 'Error' (due to %w): %w", cause, err)
	}
	return cause
}

// writePause records a pause in a condition. Conditions are a list that others write too, hence the lock.
func (r *Reconciler) writePause(ctx context.Context, garden *operatorv1alpha1.Garden, p *pause) error {
	changed := garden.DeepCopy()
	condition := corev1beta1.GetOrInitCondition(r.Clock, garden.Status.Conditions, operatorv1alpha1.ReconciliationPaused)
	condition = corev1beta1.UpdatedCondition(r.Clock, condition, corev1beta1.ConditionTrue, p.reason, p.message)
	changed.Status.Conditions = corev1beta1.MergeConditions(garden.Status.Conditions, condition)
	if equality.Semantic.DeepEqual(changed.Status.Conditions, garden.Status.Conditions) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, changed, conflict.MergeFrom(garden)); err != nil {
		return fmt.Errorf("record pause: %w", err)
	}
	return nil
}
