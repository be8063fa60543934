package managedresources

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// DefaultPollInterval is the default time between two reads of the ManagedResources that a Waiter waits for.
const DefaultPollInterval = 2 * time.Second

// Waiter waits for ManagedResources by reading them again and again, until the context of the call ends. The error then wraps the error of
// the context and lists the conditions that were not met. If a read fails, the Waiter stops at once.
type Waiter struct {
	// Client reads the ManagedResources.
	Client client.Reader
	// Interval is the time between two reads. Default: DefaultPollInterval.
	Interval time.Duration
}

// WaitUntilHealthy waits with the default interval; see Waiter.UntilHealthy.
func WaitUntilHealthy(ctx context.Context, c client.Reader, namespace, name string) error {
	return Waiter{Client: c}.UntilHealthy(ctx, namespace, name)
}

// WaitUntilHealthyAndNotProgressing waits with the default interval; see Waiter.UntilHealthyAndNotProgressing.
func WaitUntilHealthyAndNotProgressing(ctx context.Context, c client.Reader, namespace, name string) error {
	return Waiter{Client: c}.UntilHealthyAndNotProgressing(ctx, namespace, name)
}

// WaitUntilDeleted waits with the default interval; see Waiter.UntilDeleted.
func WaitUntilDeleted(ctx context.Context, c client.Reader, namespace, name string) error {
	return Waiter{Client: c}.UntilDeleted(ctx, namespace, name)
}

// WaitUntilListDeleted waits with the default interval; see Waiter.UntilListDeleted.
func WaitUntilListDeleted(ctx context.Context, c client.Reader, options ...client.ListOption) error {
	return Waiter{Client: c}.UntilListDeleted(ctx, options...)
}

// UntilHealthy waits until CheckAppliedAndHealthy returns no error for the ManagedResource. If the ManagedResource does not exist, it
// returns an error at once.
func (w Waiter) UntilHealthy(ctx context.Context, namespace, name string) error {
	return w.untilFine(ctx, namespace, name, checkHealthy)
}

// UntilHealthyAndNotProgressing waits until the ManagedResource is applied, healthy and rolled out. If the ManagedResource does not exist,
// it returns an error at once.
func (w Waiter) UntilHealthyAndNotProgressing(ctx context.Context, namespace, name string) error {
	return w.untilFine(ctx, namespace, name, func(mr *resourcesv1alpha1.ManagedResource) error {
		if err := checkHealthy(mr); err != nil {
			return err
		}
		if err := CheckNotProgressing(mr); err != nil {
			return fmt.Errorf("managed resource %s/%s is still progressing: %w", mr.Namespace, mr.Name, err)
		}
		return nil
	})
}

// UntilDeleted waits until the ManagedResource does not exist. If the context ends before, the error contains the message of the condition
// ResourcesApplied if that describes the deletion. ErrorCodes of the error then says whether a user must fix a mistake.
func (w Waiter) UntilDeleted(ctx context.Context, namespace, name string) error {
	return w.poll(ctx, func(ctx context.Context) (pending, err error) {
		mr := &resourcesv1alpha1.ManagedResource{}
		err = w.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, mr)
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("get managed resource %s/%s: %w", namespace, name, err)
		}
		return stillThere([]resourcesv1alpha1.ManagedResource{*mr}), nil
	})
}

// UntilListDeleted waits until no ManagedResource that the options select is left. Its errors are like the errors of UntilDeleted, with the
// messages of all ManagedResources that are left.
func (w Waiter) UntilListDeleted(ctx context.Context, options ...client.ListOption) error {
	return w.poll(ctx, func(ctx context.Context) (pending, err error) {
		list := &resourcesv1alpha1.ManagedResourceList{}
		if err := w.Client.List(ctx, list, options...); err != nil {
			return nil, fmt.Errorf("list managed resources: %w", err)
		}
		return stillThere(list.Items), nil
	})
}

func (w Waiter) untilFine(ctx context.Context, namespace, name string, check func(*resourcesv1alpha1.ManagedResource) error) error {
	return w.poll(ctx, func(ctx context.Context) (pending, err error) {
		mr := &resourcesv1alpha1.ManagedResource{}
		if err := w.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, mr); err != nil {
			return nil, fmt.Errorf("get managed resource %s/%s: %w", namespace, name, err)
		}
		return check(mr), nil
	})
}

// poll calls look until look returns no pending conditions, look fails, or the context ends. If the context ends, the error also lists the
// conditions that were pending at the last successful call of look.
func (w Waiter) poll(ctx context.Context, look func(context.Context) (pending, err error)) error {
	interval := w.Interval
	if interval == 0 {
		interval = DefaultPollInterval
	}
	var pending error
	err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		found, err := look(ctx)
		if err != nil {
			return false, err
		}
		pending = found
		return pending == nil, nil
	})
	if err == nil || pending == nil || ctx.Err() == nil {
		return err
	}
	return withCodes(fmt.Errorf("%w: %w", ctx.Err(), pending))
}

func checkHealthy(mr *resourcesv1alpha1.ManagedResource) error {
	if err := CheckAppliedAndHealthy(mr); err != nil {
		return fmt.Errorf("managed resource %s/%s is not healthy: %w", mr.Namespace, mr.Name, err)
	}
	return nil
}

// stillThere returns nil for an empty list, and otherwise an error with one part for each ManagedResource in it.
func stillThere(list []resourcesv1alpha1.ManagedResource) error {
	if len(list) == 0 {
		return nil
	}
	left := make([]string, 0, len(list))
	for i := range list {
		mr := &list[i]
		text := fmt.Sprintf("managed resource %s/%s still exists", mr.Namespace, mr.Name)
		if applied := corev1beta1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ResourcesApplied); applied != nil &&
			tellsOfDeletion(applied.Reason) {
			text += ": " + applied.Message
		}
		left = append(left, text)
	}
	return errors.New(strings.Join(left, "; "))
}

func tellsOfDeletion(reason string) bool {
	return reason == resourcesv1alpha1.ConditionDeletionPending || reason == resourcesv1alpha1.ConditionDeletionFailed
}
