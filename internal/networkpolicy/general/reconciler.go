// Package general maintains, in the target cluster, the general NetworkPolicies of namespaces, which do not depend on Services. One policy
// denies all connections. The others allow connections to DNS, to the API server, and to public, private and blocked networks.
//
// It watches namespaces (metadata), the policies with the label of general policies, the endpoints and the Service of the API server, and
// the Garden if the configuration says that the networks are in the Garden. If clients connect to a host name of the API server, it looks
// up the name regularly. It writes each policy with one request. It reads a policy live only if the cache lacks a needed policy and one of
// two conditions is true: the name of the policy is taken, or the last write of the controller to this policy had the needed content. It
// creates the policy that denies all connections after the other policies of the namespace, and deletes it before them.
//
// If the process stops at any point, the next one compares all namespaces at start. No finalizers are needed.
package general

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/networkpolicy/desired"
)

// The addresses of the API server, with espalier.networkPolicy.general.
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=list;watch,roleName=espalier-netpol-controller-target
// The networks of the Garden, with espalier.networkPolicy.general.networksOfGarden.
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=gardens,verbs=list;watch,roleName=espalier-netpol-controller-target

// conflictPause is the pause before the controller retries a name that a policy of another client has.
const conflictPause = time.Minute

// Reconciler maintains the policies of namespaces. Its fields are set once, before the start.
type Reconciler struct {
	// Namespaces reads the metadata of namespaces, Cached reads all other objects from the caches of CacheOptions, Live reads from the API
	// server, Writer writes. All are for the target cluster.
	Namespaces, Cached, Live client.Reader
	Writer                   client.Writer
	Events                   *Events
	Clock                    clock.PassiveClock
	// Wrote counts writes by action: create, update and delete.
	Wrote func(action string, policies int)

	// Own is the section with espalier.networkPolicy, whose General is set. The cache shows no policies of other instances.
	Own config.EspalierNetworkPolicy
	// Full and Closed select the namespaces with these scopes. A namespace that both select is closed.
	Full, Closed []labels.Selector
	// Visible are the namespaces to which the caches are restricted; an empty list means all.
	Visible []string
	// ServerName knows the addresses of the API server if clients connect to its host name; nil if they do not.
	ServerName *ServerName
	// Cluster and Blocked are the networks of the configuration, which count unless the networks come from the Garden.
	Cluster, Blocked []netip.Prefix

	repairs repairs
}

// Reconcile implements reconcile.Reconciler for the name of a namespace.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	namespace := newNamespace()
	if err := r.Namespaces.Get(ctx, types.NamespacedName{Name: request.Name}, namespace); err != nil {
		r.forget(request.Name)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if namespace.DeletionTimestamp != nil {
		r.forget(request.Name)
		return ctrl.Result{}, nil
	}
	have, ours := &networkingv1.NetworkPolicyList{}, client.MatchingLabels{resourcesv1alpha1.NetworkingGeneral: "true"}
	if err := r.Cached.List(ctx, have, client.InNamespace(request.Name), ours); err != nil {
		return ctrl.Result{}, fmt.Errorf("list policies: %w", err)
	}
	scope, facts := r.scopeOf(namespace), Facts{}
	if scope != None {
		var unknown string
		var err error
		if facts, unknown, err = r.observe(ctx); err != nil {
			return ctrl.Result{}, err
		}
		if unknown != "" { // a watch reports when it is known
			log.FromContext(ctx).V(1).Info("Policies stay as they are", "reason", unknown)
			return ctrl.Result{}, nil
		}
	}
	changes := plan(Policies(request.Name, r.Own.Instance, scope, facts), have.Items)
	if r.Own.Observes() {
		r.Events.differences(namespace, changes)
		return ctrl.Result{}, nil
	}
	return r.write(ctx, namespace, changes)
}

// forget drops the memory about a namespace that is gone.
func (r *Reconciler) forget(namespace string) {
	r.repairs.forget(namespace)
	r.Events.forget(namespace)
}

// scopeOf returns the scope of a namespace. Cluster DNS is in kube-system, so it is never closed.
func (r *Reconciler) scopeOf(namespace *metav1.PartialObjectMetadata) Scope {
	matches := func(selector labels.Selector) bool { return selector.Matches(labels.Set(namespace.Labels)) }
	switch {
	case namespace.Name == metav1.NamespaceSystem, len(r.Visible) > 0 && !slices.Contains(r.Visible, namespace.Name):
		return None
	case slices.ContainsFunc(r.Closed, matches):
		return Closed
	case slices.ContainsFunc(r.Full, matches):
		return Full
	}
	return None
}

// Actions of changes, as in metrics and messages.
const (
	actionCreate = "create"
	actionUpdate = "update"
	actionDelete = "delete"
)

// change is an action on one policy.
type change struct {
	action     string
	want, have *networkingv1.NetworkPolicy // nil: the policy must not exist, or is not in the cache
}

func (c change) name() string {
	if c.want != nil {
		return c.want.Name
	}
	return c.have.Name
}

// plan returns the changes that lead to the wanted policies. Deletions come first, and the first deletion is the policy that denies all
// connections. Then come creations and updates, in the order of want.
func plan(want []*networkingv1.NetworkPolicy, have []networkingv1.NetworkPolicy) []change {
	existing := map[string]*networkingv1.NetworkPolicy{}
	for i := range have {
		existing[have[i].Name] = &have[i]
	}
	var writes []change
	for _, each := range want {
		known := existing[each.Name]
		delete(existing, each.Name)
		switch {
		case known == nil:
			writes = append(writes, change{action: actionCreate, want: each})
		case !isCurrent(known, each):
			writes = append(writes, change{action: actionUpdate, want: each, have: known})
		}
	}
	var deletions []change
	for _, known := range existing {
		deletions = append(deletions, change{action: actionDelete, have: known})
	}
	position := func(c change) string {
		if c.have.Name == denyAll {
			return "" // before all names
		}
		return c.have.Name
	}
	slices.SortFunc(deletions, func(a, b change) int { return strings.Compare(position(a), position(b)) })
	return append(deletions, writes...)
}

// isCurrent compares the fields that the controller decides. The wording of a description does not count.
func isCurrent(have, want *networkingv1.NetworkPolicy) bool {
	for key, value := range want.Labels {
		if have.Labels[key] != value {
			return false
		}
	}
	return have.Annotations[resourcesv1alpha1.GardenerDescription] != "" && equality.Semantic.DeepEqual(have.Spec, want.Spec)
}

// write makes the changes one after the other. It does not close a namespace while a policy that allows connections is missing.
func (r *Reconciler) write(ctx context.Context, namespace *metav1.PartialObjectMetadata, changes []change) (reconcile.Result, error) {
	var conflicts, paused []string
	var failures []error
	var result reconcile.Result
	for _, each := range changes {
		if each.name() == denyAll && each.want != nil && len(conflicts)+len(paused)+len(failures) > 0 {
			continue
		}
		key := types.NamespacedName{Namespace: namespace.Name, Name: each.name()}
		if pause, remaining := r.repairs.remaining(key, each.want, r.Clock.Now()); remaining > 0 {
			paused = append(paused, desired.RepairsPause(key, pause))
			result = sooner(result, remaining)
			continue
		}
		written, err := r.send(ctx, each)
		if written {
			r.repairs.wrote(key, each.want, r.Clock.Now())
			r.Wrote(each.action, 1)
			log.FromContext(ctx).Info("Changed NetworkPolicy", "action", each.action, "policy", key.Name)
		}
		var taken *takenError
		switch {
		case errors.As(err, &taken):
			conflicts = append(conflicts, fmt.Sprintf("NetworkPolicy %s exists and belongs to %s; it is left alone, and the namespace "+
				"is not closed: rename or delete it", key, taken.by))
			result = sooner(result, conflictPause)
		case err != nil:
			failures = append(failures, fmt.Errorf("%s NetworkPolicy %s: %w", each.action, key, err))
		}
	}
	r.Events.taken(namespace, conflicts)
	r.Events.paused(namespace, paused)
	if len(failures) > 0 {
		return ctrl.Result{}, errors.Join(failures...)
	}
	return result, nil
}

// sooner reduces RequeueAfter to at most a pause.
func sooner(result reconcile.Result, pause time.Duration) reconcile.Result {
	if result.RequeueAfter == 0 || pause < result.RequeueAfter {
		result.RequeueAfter = pause
	}
	return result
}

// takenError is the error of a name that a policy of another client has.
type takenError struct{ by string }

func (e *takenError) Error() string { return "belongs to " + e.by }

func (r *Reconciler) send(ctx context.Context, c change) (written bool, err error) {
	switch c.action {
	case actionDelete:
		err = r.Writer.Delete(ctx, c.have.DeepCopy(), client.Preconditions{UID: &c.have.UID, ResourceVersion: &c.have.ResourceVersion})
		return err == nil, client.IgnoreNotFound(err)
	case actionUpdate:
		return r.update(ctx, c.want, c.have.ResourceVersion)
	}
	if r.repairs.isLast(client.ObjectKeyFromObject(c.want), c.want) {
		if written, err = r.live(ctx, c.want); !apierrors.IsNotFound(err) {
			return written, err
		}
	}
	err = r.Writer.Create(ctx, c.want.DeepCopy())
	switch {
	case apierrors.IsAlreadyExists(err):
		return r.live(ctx, c.want)
	case apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return false, nil // the cache does not have the deletion of the namespace yet; its event follows
	}
	return err == nil, err
}

// live reads the existing policy from the API server, because the cache does not contain it. It updates the policy if necessary, or
// returns an error if the policy belongs to another client.
func (r *Reconciler) live(ctx context.Context, want *networkingv1.NetworkPolicy) (written bool, err error) {
	found := &networkingv1.NetworkPolicy{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(want), found); err != nil {
		return false, err
	}
	owned := found.Labels[resourcesv1alpha1.NetworkingGeneral] == "true"
	instance := desired.Instance(found)
	adopted := owned || desired.IsUnlabelledCopy(found, want) || isGardeners(found, want)
	switch {
	case instance != "" && instance != r.Own.Instance:
		return false, &takenError{by: fmt.Sprintf("the netpol-controller of instance %q", instance)}
	case !adopted:
		const differs = ", and another spec and description"
		return false, &takenError{by: "another client: it has no label " + resourcesv1alpha1.NetworkingGeneral + differs}
	case owned && isCurrent(found, want):
		return false, nil
	}
	return r.update(ctx, want, found.ResourceVersion)
}

// isGardeners reports whether a policy is Gardener's policy of the same name: only Gardener's programs have written it, and it has the
// desired Pod selector and policy types.
func isGardeners(found, want *networkingv1.NetworkPolicy) bool {
	isOther := func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager != "gardener-operator" && f.Manager != "gardenlet"
	}
	return len(found.ManagedFields) > 0 && !slices.ContainsFunc(found.ManagedFields, isOther) &&
		equality.Semantic.DeepEqual(found.Spec.PodSelector, want.Spec.PodSelector) &&
		equality.Semantic.DeepEqual(found.Spec.PolicyTypes, want.Spec.PolicyTypes)
}

// update writes all fields that the controller decides, unless the policy has changed since it was read.
func (r *Reconciler) update(ctx context.Context, want *networkingv1.NetworkPolicy, version string) (written bool, err error) {
	patch, err := desired.Replacement(want, version)
	if err != nil {
		return false, err
	}
	target := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}
	err = r.Writer.Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, patch))
	return err == nil, err
}
