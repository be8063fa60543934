package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/proof"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/validation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
	"github.com/espalier-dev/espalier/internal/secrets"
	"github.com/espalier-dev/espalier/internal/secrets/manager"
)

// scheduled returns the operation that the operator itself requests. The operator requests one only in a maintenance window, only after a
// reconciliation that has succeeded, because a rotation must not make a broken Garden worse, and only if the user neither aborts rotations
// nor requests an operation other than reconcile.
func (r *Reconciler) scheduled(ctx context.Context, s *status, requested rotation.Operations) (rotation.Operations, error) {
	if !r.Schedule.HasAutomatic() || s.garden.DeletionTimestamp != nil || s.clocks != nil || asksForAbort(s.garden.Annotations) ||
		!sets.New(operatorv1alpha1.OperationReconcile).IsSuperset(requested) || !isReconciled(s.garden) {
		return nil, nil
	}
	window, err := values.NewMaintenance(s.garden.Spec.VirtualCluster.Maintenance.TimeWindow)
	if err != nil {
		return nil, fmt.Errorf("read maintenance window: %w", err)
	}
	now := r.Clock.Now()
	if open, _ := window.IsAt(now); !open {
		return nil, nil
	}
	m, err := r.secretsManager(ctx, s.garden, s.clocks)
	if err != nil {
		return nil, err
	}
	operation, due := rotation.Request(rotationOf(s.garden), r.actions(s.garden, m), now)
	if asked := askedFor(s.garden, operation); !due || len(validation.Operations(asked)) > 0 { // for example while resources get encrypted
		return nil, nil
	}
	return sets.New(operation), nil
}

// isReconciled reports whether the last operation on a Garden was a reconciliation that has succeeded.
func isReconciled(garden *operatorv1alpha1.Garden) bool {
	last := garden.Status.LastOperation
	return last != nil && last.Type == operatorv1alpha1.LastOperationReconcile && last.State == operatorv1alpha1.LastOperationSucceeded
}

// reportRequests writes Events about the requests of the operator and of the user, which may have no effect. The parameter facts does not
// contain the scheduled operations. A scheduled operation that has no effect is requested again, perhaps often: it has no Event, and only
// the status shows the reason. Everything else that has no effect has an Event, such as an abort that waits while another rotation is
// scheduled.
func (r *Reconciler) reportRequests(
	s *status, before *operatorv1alpha1.CredentialsRotation, facts rotation.Facts, scheduled rotation.Operations,
) {
	_, refused := rotation.Begin(before, facts)
	for _, each := range refused {
		r.Recorder.Eventf(s.garden, nil, "Warning", reasonOperationRefused, "Reconcile", "%s", excerpt.Of(each, maxNote))
	}
	if len(s.refused) > len(refused) {
		return
	}
	for _, each := range sets.List(scheduled) {
		r.Recorder.Eventf(s.garden, nil, "Normal", reasonRotationScheduled, "Reconcile", "The operator requests the operation %s.", each)
	}
}

// skippedProof returns the first check that the user skips and that proves that former credentials are not used any more. It returns "" if
// the user skips no such check.
func skippedProof(garden *operatorv1alpha1.Garden) string {
	for _, each := range skippedChecks(garden) {
		if check, _, _ := strings.Cut(each, "/"); check == proof.Check || check == virtual.CheckSeeds {
			return each
		}
	}
	return ""
}

// askedFor returns a copy of a Garden whose user requests an operation.
func askedFor(garden *operatorv1alpha1.Garden, operation operatorv1alpha1.Operation) *operatorv1alpha1.Garden {
	asked := garden.DeepCopy()
	metav1.SetMetaDataAnnotation(&asked.ObjectMeta, gardenerOperation, string(operation))
	return asked
}

// actions returns the operations on credentials that are due now or later.
func (r *Reconciler) actions(garden *operatorv1alpha1.Garden, m *manager.Manager) []rotation.Action {
	issued := map[rotation.Credential]time.Time{}
	for _, each := range components.RotatedSecrets() {
		at, exists := issuedAt(m.Newest(each.Name))
		if known, isKnown := issued[each.Credential]; exists && (!isKnown || at.Before(known)) {
			issued[each.Credential] = at
		}
	}
	return r.Schedule.Actions(rotationOf(garden), issued, rotatesEncryptionInOneStep(garden), skippedProof(garden))
}

// issuedAt returns when the content of a managed Secret was issued, and false if there is no Secret.
func issuedAt(secret *corev1.Secret) (time.Time, bool) {
	if secret == nil {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseInt(secret.Labels[secrets.LabelIssuedAt], 10, 64)
	return time.Unix(seconds, 0), err == nil
}

// rotatesEncryptionInOneStep reports whether the rotation of the encryption key always completes by itself.
func rotatesEncryptionInOneStep(garden *operatorv1alpha1.Garden) bool {
	kubernetes, _ := versions.ParseKubernetes(garden.Spec.VirtualCluster.Kubernetes.Version) // a malformed version counts as an old one
	return kubernetes.AtLeast(rotation.SingleStepEncryptionFrom)
}

// untilNext returns the time until the next reconciliation. This is endsAbortAfter if an abort has to complete. Otherwise it is the time
// until the next maintenance window if an operation of the operator is due then. It is never longer than the sync period.
func (r *Reconciler) untilNext(garden *operatorv1alpha1.Garden, m *manager.Manager, window values.Maintenance) time.Duration {
	if awaitsEndOfAbort(garden) {
		return min(endsAbortAfter, r.SyncPeriod)
	}
	open, remains := window.IsAt(r.Clock.Now())
	if open || remains > r.SyncPeriod || !slices.ContainsFunc(r.actions(garden, m), func(a rotation.Action) bool {
		return a.Automatic && !a.Due.After(r.Clock.Now().Add(remains))
	}) {
		return r.SyncPeriod
	}
	return remains
}

// announceRotation writes the next operation on credentials that a user must request into an annotation of the Garden.
func (r *Reconciler) announceRotation(ctx context.Context, s *status, m *manager.Manager) error {
	next := slices.DeleteFunc(r.actions(s.garden, m), func(a rotation.Action) bool { return a.Automatic })
	if ends := r.endOfAuthorities(s.garden, m); ends != nil {
		next = append(next, *ends)
	}
	slices.SortStableFunc(next, func(a, b rotation.Action) int { return a.Due.Compare(b.Due) })
	text := ""
	if len(next) > 0 {
		text = next[0].String()
	}
	if s.garden.Annotations[operatorv1alpha1.AnnotationNextRotation] == text {
		return nil
	}
	changed := s.garden.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, operatorv1alpha1.AnnotationNextRotation, text)
	if text == "" {
		delete(changed.Annotations, operatorv1alpha1.AnnotationNextRotation)
	}
	if err := r.Client.Patch(ctx, changed, client.MergeFrom(s.garden)); err != nil {
		return &unrecordedError{fmt.Errorf("announce next rotation: %w", err)}
	}
	s.garden = changed
	return nil
}

// endOfAuthorities returns the rotation that must begin before the certificate authorities expire, nil if one is going on.
func (r *Reconciler) endOfAuthorities(garden *operatorv1alpha1.Garden, m *manager.Manager) *rotation.Action {
	const operation = operatorv1alpha1.OperationRotateCAStart
	if all, _ := rotation.Starts(rotationOf(garden), sets.New(operation)); all.Len() == 0 {
		return nil
	}
	var first *rotation.Action
	for _, authority := range rotation.Authorities {
		current := m.Newest(authority.Name)
		if current == nil || authority.RenewsItself {
			continue
		}
		end, expires := endOf(current)
		if due := end.Add(-warnBeforeExpiry); expires && (first == nil || due.Before(first.Due)) {
			first = &rotation.Action{Operation: operation, Due: due, Cause: fmt.Sprintf(
				"the certificate authority %s expires at %s", authority.Name, end.UTC().Format(time.RFC3339),
			)}
		}
	}
	return first
}

// overdue returns the operations on credentials that are overdue.
func (r *Reconciler) overdue(garden *operatorv1alpha1.Garden, m *manager.Manager) []string {
	var texts []string
	for _, each := range r.actions(garden, m) {
		if each.IsOverdue(r.Clock.Now()) {
			texts = append(texts, each.String())
		}
	}
	return texts
}

// withOverdue returns the conditions with a condition about overdue operations, or without it if there are none.
func withOverdue(now clock.PassiveClock, conditions []corev1beta1.Condition, overdue []string) []corev1beta1.Condition {
	const kind = operatorv1alpha1.RotationOverdue
	if len(overdue) == 0 {
		return withoutCondition(conditions, kind)
	}
	message := "Rotations are overdue: " + strings.Join(overdue, "; ") + "."
	return withTrue(now, conditions, kind, operatorv1alpha1.ReasonOperationNotRequested, message)
}
