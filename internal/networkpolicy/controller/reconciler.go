// Package controller keeps the NetworkPolicies that Services ask for, in the target cluster.
//
// It watches Services, namespaces (metadata), the NetworkPolicies that carry the labels of a Service, and Ingresses if an
// ingress controller is configured. It writes NetworkPolicies, each with one request, and reads a policy live only if
// there is one under a name that it wants, which is not in its cache. A namespace's event makes it look at the Services
// whose selection of that namespace changed, and of these only at the policies for it.
//
// If the process dies half-way, the next one compares everything once at start: what is missing is created, and policies
// whose Service is gone are found by their labels. No finalizers are needed.
package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/espalier-dev/espalier/internal/networkpolicy/desired"
)

// What the controller is about: it reads them from caches only.
// +kubebuilder:rbac:groups="",resources=services;namespaces,verbs=list;watch,roleName=espalier-netpol-controller-target
// The backends of Ingresses, if controllers.networkPolicy.ingressControllerSelector is set.
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=list;watch,roleName=espalier-netpol-controller-target
// Policies: get is for those that are not ours and yet have a name that we want.
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete,roleName=espalier-netpol-controller-target
// What it reports about Services.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,roleName=espalier-netpol-controller-target
// Leader election, in the source cluster.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=espalier-system,roleName=espalier-netpol-controller-lease
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=gardener-resource-manager-netpol-controller,verbs=get;update,namespace=espalier-system,roleName=espalier-netpol-controller-lease
// Leader election tells of itself.
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch,namespace=espalier-system,roleName=espalier-netpol-controller-lease

// conflictPause is how long a name that somebody else's policy has is left to them before it is tried again.
const conflictPause = time.Minute

// missedPause is how long a name that has become free meanwhile, or a policy that somebody else has just written, is left.
const missedPause = 100 * time.Millisecond

// Reconciler keeps the policies of one Service after the other. Its fields are set once, before start.
type Reconciler struct {
	// Cached reads from caches with CacheOptions, Live past them; Writer writes. All are of the target cluster.
	Cached, Live client.Reader
	Writer       client.Writer
	Events       *Events
	Metrics      *Metrics
	Scopes       *Scopes
	Writes       *Writes
	Fights       *Fights
	Selections   *Selections
	Waiting      *Waiting

	// Handled select the namespaces whose Services count; none means all.
	Handled []labels.Selector
	// Clients select the namespaces that Services may select as clients. Nil allows all namespaces; an empty list allows
	// none besides the Service's own.
	Clients []labels.Selector
	// Visible are the namespaces that the caches are restricted to; none means all. Others are no clients.
	Visible []string
	// IngressController is nil if Ingresses do not count.
	IngressController *desired.IngressController
	// ObserveOnly makes it tell what it would do, and write nothing.
	ObserveOnly bool
	// Slots bounds the requests in flight over all Services by its capacity.
	Slots chan struct{}
}

// Reconcile implements reconcile.Reconciler. Faults that only an edit can mend are no errors: they are told in Events.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key, asked := request.NamespacedName, r.Scopes.take(request.NamespacedName)
	if r.ObserveOnly {
		asked = scope{whole: true} // the whole difference is told
	}
	seen, err := r.observe(ctx, key, asked)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.tellFaults(seen)
	if seen.untouched {
		r.tellDifference(seen, nil)
		return ctrl.Result{}, nil
	}
	changes := plan(seen.set.Policies, seen.have, seen.keep)
	if r.ObserveOnly {
		r.tellDifference(seen, changes)
		return r.wait(ctx, seen, seen.conflicts), nil
	}
	changes, truces := r.Fights.hold(changes)
	r.Events.truces(seen, truces)
	outcome := r.write(ctx, key, changes)
	conflicts := slices.Concat(seen.conflicts, outcome.conflicts)
	r.Events.conflicts(seen, conflicts)
	r.Events.failures(seen, outcome.failures)
	if len(changes) > 0 {
		log.FromContext(ctx).Info("Changed NetworkPolicies", "create", outcome.done[actionCreate], "update", outcome.done[actionUpdate], "delete", outcome.done[actionDelete], "failed", len(outcome.failures))
	}
	if len(outcome.failures) > 0 {
		return ctrl.Result{}, notAll(outcome.failures)
	}
	result := r.wait(ctx, seen, conflicts)
	if outcome.again {
		result = sooner(result, missedPause)
	}
	for _, each := range truces {
		result = sooner(result, each.rest)
	}
	return result, nil
}

// wait comes back to names that are taken. That one of a Service has become free is told by an event, unless it came
// while we were at it.
func (r *Reconciler) wait(ctx context.Context, f *facts, conflicts []conflict) reconcile.Result {
	r.Waiting.set(f.key, conflicts, f.whole)
	if len(conflicts) == 0 {
		return ctrl.Result{}
	}
	for _, each := range f.conflicts {
		policy := &networkingv1.NetworkPolicy{}
		err := r.Cached.Get(ctx, each.policy, policy, client.UnsafeDisableDeepCopy)
		if owner, _ := desired.Owner(policy); err != nil || owner == f.key {
			return ctrl.Result{RequeueAfter: missedPause}
		}
	}
	return ctrl.Result{RequeueAfter: conflictPause}
}

// sooner comes back after a pause at the latest.
func sooner(result reconcile.Result, pause time.Duration) reconcile.Result {
	if result.RequeueAfter == 0 || pause < result.RequeueAfter {
		result.RequeueAfter = pause
	}
	return result
}

// maxFailures is how many failures an error lists; the rest is counted.
const maxFailures = 10

func notAll(failures []error) error {
	if more := len(failures) - maxFailures; more > 0 {
		failures = append(failures[:maxFailures:maxFailures], fmt.Errorf("and %d more", more))
	}
	return errors.Join(failures...)
}

// conflict is a name that we want and that is taken.
type conflict struct {
	policy types.NamespacedName
	// by says whose it is.
	by string
}
