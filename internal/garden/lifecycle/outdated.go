package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// errOutdated is the reason why an operation ends early: a user has deleted the Garden, changed its specification or requested to abort a
// rotation, or another process has begun or advanced a rotation. The next operation follows at once. Without the early end, the next
// operation would have to wait until the tasks of this operation have reached their timeouts.
var errOutdated = errors.New("the Garden, or the state of its rotations, has changed in the meantime, or a rotation is to be aborted")

var errCurrent = errors.New("the Garden has not changed")

// endIfOutdated ends an operation when the generation of the Garden changes, as it also does when the Garden is deleted, or when a user
// aborts a rotation. The annotation for aborts is always a new request, because the operation has already removed the annotation of an
// earlier abort. endIfOutdated returns when it has ended the operation, or when the context ends.
func (r *Reconciler) endIfOutdated(ctx context.Context, garden *operatorv1alpha1.Garden, end context.CancelCauseFunc) {
	kind := operatorv1alpha1.SchemeGroupVersion.WithKind("Garden")
	current := rollout.Identity(kind, "", garden.Name)
	err := r.cluster(garden).Until(ctx, 0, func(ctx context.Context) error {
		live := rollout.MetadataOf(current)
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(current), live)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return fmt.Errorf("read Garden %s: %w", current.GetName(), err)
		case live.UID == garden.UID && live.Generation == garden.Generation && !asksForAbort(live.Annotations):
			return errCurrent
		}
		return nil
	}, rollout.WatchObject(current))
	if err == nil {
		end(errOutdated)
	}
}

// ensureSameRotation returns errOutdated if the rotations in the status are not the same as at the start of the operation. In this case,
// this process was paused for so long that another process became the leader. The other process may have deleted former keys in the
// meantime, so API servers must not encrypt with these keys again.
func (r *Reconciler) ensureSameRotation(ctx context.Context, garden *operatorv1alpha1.Garden) error {
	live := &operatorv1alpha1.Garden{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(garden), live); err != nil {
		return fmt.Errorf("read Garden %s again: %w", garden.Name, err)
	}
	if live.UID != garden.UID || !equality.Semantic.DeepEqual(rotationOf(live), rotationOf(garden)) {
		return errOutdated
	}
	return nil
}
