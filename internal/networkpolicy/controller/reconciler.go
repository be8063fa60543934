// Package controller maintains, in the target cluster, the NetworkPolicies that Services request.
//
// It watches Services, namespaces (metadata), the NetworkPolicies that carry the labels of a Service, and Ingresses if an ingress
// controller is configured. It writes each NetworkPolicy with one request. It reads a policy live only in two cases: a policy with a
// desired name exists that is not in the cache, or the controller must change or delete a policy whose last write is not in the cache yet.
// After an event of a namespace, it reconciles only Services whose selection of that namespace has changed, and of these Services only the
// policies for that namespace. It also reconciles all Services in that namespace if the namespace is new or if its Services are handled
// now and were not before, or the reverse. If the event makes the namespace of the ingress controller usable or unusable, it reconciles
// all backends of Ingresses.
//
// If the process stops at any point, the next one compares everything once at start: it creates missing policies, and finds policies of
// deleted Services by their labels. No finalizers are needed.
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

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/networkpolicy/desired"
)

// The objects from which policies are derived: they are read from caches only.
// +kubebuilder:rbac:groups="",resources=services;namespaces,verbs=list;watch,roleName=espalier-netpol-controller-target
// The backends of Ingresses, if controllers.networkPolicy.ingressControllerSelector is set.
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=list;watch,roleName=espalier-netpol-controller-target
// Policies. The verb get is for policies with a desired name that the cache does not contain, for example because they lack the labels of
// a Service.
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete,roleName=espalier-netpol-controller-target
// Events about Services.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,roleName=espalier-netpol-controller-target
// Leader election, in the source cluster.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=espalier-system,roleName=espalier-netpol-controller-lease
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=gardener-resource-manager-netpol-controller,verbs=get;update,namespace=espalier-system,roleName=espalier-netpol-controller-lease
// Leader election creates Events.
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch,namespace=espalier-system,roleName=espalier-netpol-controller-lease

// conflictPause is the pause before the controller retries a name that a policy of another owner has.
const conflictPause = time.Minute

// missedPause is the pause before the controller retries after a name has become free, or after another client has written a policy.
const missedPause = 100 * time.Millisecond

// Reconciler maintains the policies of Services. Its fields are set once, before the start.
type Reconciler struct {
	// Cached reads from caches with CacheOptions, Live reads from the API server, Writer writes. All are for the target cluster.
	Cached, Live client.Reader
	Writer       client.Writer
	Events       *Events
	Metrics      *Metrics
	Writes       *Writes
	Repairs      *Repairs

	// Own are the settings; Clients and Slots are made from some of them. The cache shows no policies of other instances.
	Own config.EspalierNetworkPolicy
	// Handled select the namespaces whose Services are handled; an empty list selects all.
	Handled []labels.Selector
	// Clients select the namespaces that Services may select as clients. Nil allows all namespaces; an empty list allows only the Service's
	// own.
	Clients []labels.Selector
	// Visible are the namespaces to which the caches are restricted; an empty list means all. Other namespaces cannot be clients.
	Visible []string
	// IngressController is nil if Ingresses are ignored.
	IngressController *desired.IngressController
	// Slots limits the concurrent requests of all Services by its capacity.
	Slots chan struct{}

	scopes     scopes
	selections selections
	waiting    waiting
}

// Reconcile implements reconcile.Reconciler. Faults that only a user can correct are reported in Events, not as errors.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key, asked := request.NamespacedName, r.scopes.take(request.NamespacedName)
	if r.Own.Observes() {
		asked = scope{whole: true} // the Event covers all differences
	}
	seen, err := r.observe(ctx, key, asked)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.Events.faults(seen)
	r.Events.missing(seen)
	r.Events.shortened(seen)
	if seen.untouched {
		r.tellDifference(seen, nil)
		return ctrl.Result{}, nil
	}
	changes := plan(seen.set.Policies, seen.have, seen.keep)
	if r.Own.Observes() {
		r.tellDifference(seen, changes)
		return r.wait(ctx, seen, seen.conflicts), nil
	}
	changes, paused := r.Repairs.split(changes)
	r.Events.pausedRepairs(seen, paused)
	outcome := r.write(ctx, key, changes)
	conflicts := slices.Concat(seen.conflicts, outcome.conflicts)
	r.Events.conflicts(seen, conflicts)
	r.Events.failures(seen, outcome.failures)
	if len(changes) > 0 {
		log.FromContext(ctx).Info("Changed NetworkPolicies", "create", outcome.done[actionCreate], "update", outcome.done[actionUpdate], "delete",
			outcome.done[actionDelete], "failed", len(outcome.failures))
	}
	if len(outcome.failures) > 0 {
		return ctrl.Result{}, notAll(outcome.failures)
	}
	result := r.wait(ctx, seen, conflicts)
	if outcome.again {
		result = sooner(result, missedPause)
	}
	for _, each := range paused {
		result = sooner(result, each.remaining)
	}
	return result, nil
}

// wait returns when to retry names that are taken. When another Service releases a name, an event enqueues the Service. If the name was
// released during this reconciliation, this event may have come too early: then wait returns a short pause.
func (r *Reconciler) wait(ctx context.Context, f *facts, conflicts []conflict) reconcile.Result {
	r.waiting.set(f.key, conflicts, f.whole)
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

// sooner reduces RequeueAfter to at most a pause.
func sooner(result reconcile.Result, pause time.Duration) reconcile.Result {
	if result.RequeueAfter == 0 || pause < result.RequeueAfter {
		result.RequeueAfter = pause
	}
	return result
}

// maxFailures is how many failures an error lists; it only counts the others.
const maxFailures = 10

func notAll(failures []error) error {
	if more := len(failures) - maxFailures; more > 0 {
		failures = append(failures[:maxFailures:maxFailures], fmt.Errorf("and %d more", more))
	}
	return errors.Join(failures...)
}

// conflict is a desired name of a policy that is taken.
type conflict struct {
	policy types.NamespacedName
	// by is the owner of the existing policy.
	by string
}
