package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/networkpolicy/desired"
)

// outcome is the result of several changes.
type outcome struct {
	mu        sync.Mutex
	done      map[string]int // by action
	conflicts []conflict
	failures  []error
	// again is true if another client has written at the same time, so that the Service must be reconciled again.
	again bool
}

// write makes all changes, concurrently as far as slots are free. It continues after failures until the context ends.
func (r *Reconciler) write(ctx context.Context, service types.NamespacedName, changes []change) *outcome {
	o := &outcome{done: map[string]int{}}
	var group sync.WaitGroup
	for _, each := range changes {
		if err := r.slot(ctx); err != nil {
			o.add(each, result{err: err})
			break
		}
		group.Go(func() {
			defer func() { <-r.Slots }()
			o.add(each, r.writeOne(ctx, service, each))
		})
	}
	group.Wait()
	slices.SortFunc(o.failures, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	for action, n := range o.done {
		r.Metrics.Wrote(action, n)
	}
	return o
}

// slot waits until one more concurrent request is allowed.
func (r *Reconciler) slot(ctx context.Context) error {
	select {
	case r.Slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for other requests: %w", context.Cause(ctx))
	}
}

// add adds the result of one change.
func (o *outcome) add(c change, result result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if result.written {
		o.done[c.action]++
	}
	o.again = o.again || result.again
	if result.takenBy != "" {
		o.conflicts = append(o.conflicts, conflict{policy: c.policy, by: result.takenBy})
	}
	if result.err != nil {
		o.failures = append(o.failures, fmt.Errorf("%s NetworkPolicy %s: %w", c.action, c.policy, result.err))
	}
}

// result is the result of one change.
type result struct {
	written bool
	takenBy string
	// again is true if another client has written or deleted the policy at the same time.
	again bool
	err   error
}

func (r *Reconciler) writeOne(ctx context.Context, service types.NamespacedName, c change) result {
	fingerprint := c.fingerprint()
	r.Writes.begin(service, c.policy, fingerprint)
	done := r.send(ctx, service, c)
	if done.again {
		done = r.live(ctx, service, c) // the cache lags behind
	}
	if done.written {
		r.Repairs.wrote(c.policy, fingerprint)
	} else {
		r.Writes.fail(service, c.policy)
	}
	return done
}

func (r *Reconciler) send(ctx context.Context, service types.NamespacedName, c change) result {
	switch {
	case c.action != actionCreate && c.have.version == "":
		return r.live(ctx, service, c)
	case c.action == actionUpdate:
		return r.update(ctx, c.want, c.have.version)
	case c.action == actionDelete:
		return r.remove(ctx, c.policy, c.have)
	}
	err := r.Writer.Create(ctx, c.want.DeepCopy())
	switch {
	case apierrors.IsAlreadyExists(err):
		return r.live(ctx, service, c)
	case apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// The cache does not have the deletion of the namespace yet; its event follows.
		log.FromContext(ctx).V(1).Info("Did not create a NetworkPolicy in a namespace that goes", "policy", c.policy)
		return result{}
	}
	return result{written: err == nil, err: err}
}

// live decides by the live policy, because the cache does not have it.
func (r *Reconciler) live(ctx context.Context, service types.NamespacedName, c change) result {
	found := &networkingv1.NetworkPolicy{}
	err := r.Live.Get(ctx, c.policy, found)
	if apierrors.IsNotFound(err) {
		return result{again: c.want != nil}
	}
	if err != nil {
		return result{err: err}
	}
	owner, owned := desired.Owner(found)
	instance := desired.Instance(found)
	switch {
	case instance != "" && instance != r.Own.Instance && c.want == nil:
		return result{}
	case instance != "" && instance != r.Own.Instance:
		return result{takenBy: fmt.Sprintf(
			"the netpol-controller of instance %q, for which the namespace of the Service must be left out here", instance,
		)}
	case c.want == nil && owner != service, c.want == nil && !owned:
		return result{}
	case c.want == nil:
		return r.remove(ctx, c.policy, existing{uid: found.UID, version: found.ResourceVersion})
	case owned && owner != service:
		return result{takenBy: fmt.Sprintf("Service %s", owner)}
	case !owned && !desired.IsUnlabelledCopy(found, c.want):
		return result{takenBy: "another client: it has not both labels of a Service, another spec and another description"}
	case owned && desired.Fingerprint(found) == desired.Fingerprint(c.want):
		return result{}
	}
	if !owned {
		log.FromContext(ctx).Info("Takes over a NetworkPolicy without labels", "policy", c.policy)
	}
	return r.update(ctx, c.want, found.ResourceVersion)
}

// update writes all fields that the controller decides, unless the policy has changed since it was read. Other labels and annotations stay.
func (r *Reconciler) update(ctx context.Context, want *networkingv1.NetworkPolicy, version string) result {
	patch, err := desired.Replacement(want, version)
	if err != nil {
		return result{err: err}
	}
	target := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}
	err = r.Writer.Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, patch))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return result{again: true}
	}
	return result{written: err == nil, err: err}
}

// remove deletes a policy only if it has not changed since it was read.
func (r *Reconciler) remove(ctx context.Context, policy types.NamespacedName, have existing) result {
	target := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: policy.Namespace, Name: policy.Name}}
	err := r.Writer.Delete(ctx, target, client.Preconditions{UID: ptr.To(have.uid), ResourceVersion: ptr.To(have.version)})
	switch {
	case apierrors.IsNotFound(err):
		return result{}
	case apierrors.IsConflict(err):
		return result{again: true}
	}
	return result{written: err == nil, err: err}
}
