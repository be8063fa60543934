package certificates

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// stepTimeout limits one step: reading Secret and configurations, and the writes that follow.
	stepTimeout = 20 * time.Second
	// minRetry and maxRetry are how long the loop waits after a failure; it doubles in between.
	minRetry = 100 * time.Millisecond
	maxRetry = 30 * time.Second
	// recheck is the longest time between two steps, even if nothing is due and no watch has reported a change.
	recheck = 10 * time.Minute
	// maxChanges limits the changes of one step. It is more than ever follow each other without a wait.
	maxChanges = 8
)

// lead keeps Secret and configurations until the context ends.
func (k *Keeper) lead(ctx context.Context) {
	k.leading.Lock() // This replica may have lost the Lease and regained it, while its former loop still runs.
	defer k.leading.Unlock()
	var watching sync.WaitGroup
	defer watching.Wait()
	for _, wanted := range k.options.Configurations(nil) {
		watching.Go(func() { k.watchConfiguration(ctx, wanted) })
	}
	k.distributed = distribution{}
	retry := minRetry
	for {
		wait, err := k.step(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			retry = minRetry
		case errors.Is(err, errUnreachable):
			k.options.Log.Info("Webhook configurations are not created yet; trying again", "reason", err.Error(), "after", reachableRetry.String())
			wait, retry = reachableRetry, minRetry
		default:
			if isConflict(err) {
				k.options.Log.V(1).Info("Write conflict, retrying", "reason", err.Error())
			} else {
				k.options.Log.Error(err, "Webhook certificates could not be kept; trying again", "after", retry.String())
			}
			wait, retry = retry, min(2*retry, maxRetry)
		}
		if !k.wait(ctx, wait, err == nil) {
			return
		}
	}
}

// wait returns true after the duration or, if changes is true, as soon as k.changed receives a value. It returns false when the context
// ends.
func (k *Keeper) wait(ctx context.Context, duration time.Duration, changes bool) bool {
	timer := k.options.Clock.NewTimer(duration)
	defer timer.Stop()
	changed := k.changed
	if !changes {
		changed = nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-timer.C():
	}
	return true
}

// step compares the Secret and the configurations with the plan, and writes the changes that are due. It returns the time until the
// next change is due.
func (k *Keeper) step(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	for range maxChanges {
		// The order matters: a process that writes configurations must have read them before the Secret. See the package comment.
		live, unread := k.readConfigurations(ctx)
		if unread != nil {
			k.distributed = distribution{} // Change the Secret nevertheless: the configurations may be in another cluster.
		}
		secret, err := k.readSecret(ctx)
		if err != nil {
			return 0, errors.Join(err, unread)
		}
		found, err := k.examine(secret)
		if err != nil {
			return 0, err
		}
		due, next := k.rules.nextChange(found)
		if due != nothing {
			err = k.change(ctx, due, found, secret)
			if err != nil {
				return 0, err
			}
			continue
		}
		k.adoptFirst(found.state)
		if unread != nil {
			return 0, unread
		}
		written, err := k.distribute(ctx, found.state.bundle(), live)
		if err != nil {
			k.distributed = distribution{}
			return 0, err
		}
		if k.recordDistribution(found.state.bundle(), written) {
			continue // The time from which the bundle is distributed may make the next change due.
		}
		return min(next.Sub(found.now), recheck), nil
	}
	return 0, errors.New("keep webhook certificates: there is no end of changes")
}

// recordDistribution records that every configuration has the bundle, and returns true if this is new.
func (k *Keeper) recordDistribution(bundle []byte, written int) bool {
	if written == 0 && !k.distributed.startOf(bundle).IsZero() {
		return false
	}
	k.distributed = distribution{bundle: bundle, since: k.options.Clock.Now()}
	return true
}

// readSecret returns the Secret; nil if it does not exist.
func (k *Keeper) readSecret(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := k.own.Get(ctx, client.ObjectKey{Namespace: k.options.Namespace, Name: k.options.SecretName}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", k.options.Namespace, k.options.SecretName, err)
	}
	return secret, nil
}

// examine returns the facts for the plan. A Secret of this program that cannot be decoded counts as absent. If the Secret belongs to
// another client, examine returns an error.
func (k *Keeper) examine(secret *corev1.Secret) (facts, error) {
	now := k.options.Clock.Now()
	found := facts{remembered: k.known.trustworthy(now), now: now}
	if secret == nil {
		return found, nil
	}
	s, err := decode(secret)
	if errors.Is(err, errForeign) {
		return facts{}, err
	}
	if err != nil {
		k.options.Log.Error(err, "Secret of webhook certificates cannot be used and is replaced; to get new certificates, delete it instead "+
			"of editing it")
		return found, nil
	}
	found.state, found.distributed = s, k.distributed.startOf(s.bundle())
	return found, nil
}

// change writes the Secret, unless another client has written it since it was read.
func (k *Keeper) change(ctx context.Context, due change, found facts, before *corev1.Secret) error {
	after, err := k.rules.carryOut(due, found)
	if err != nil {
		return err
	}
	secret, err := after.encode(k.options.Namespace, k.options.SecretName)
	if err != nil {
		return err
	}
	if before == nil {
		err = k.own.Create(ctx, secret, client.FieldOwner(k.options.FieldManager))
	} else {
		updated := before.DeepCopy() // Labels and annotations of other clients stay.
		updated.Data = secret.Data
		err = k.own.Update(ctx, updated, client.FieldOwner(k.options.FieldManager))
	}
	if err != nil {
		return fmt.Errorf("write Secret %s/%s: %w", k.options.Namespace, k.options.SecretName, err)
	}
	k.options.Log.Info("Wrote Secret of webhook certificates", "change", string(due), "secret", k.options.Namespace+"/"+k.options.SecretName,
		"authorityExpires", after.authority.certificate.NotAfter, "certificateExpires", after.serving.certificate.NotAfter)
	k.adoptFirst(after)
	return nil
}
