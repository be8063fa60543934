package controller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/networkpolicy/desired"
)

// serviceIndex is the index of policies by the Service in their labels, as "namespace/name".
const serviceIndex = "service"

// facts are the input and intermediate results of one reconciliation.
type facts struct {
	key types.NamespacedName
	// service is the object of the Events; if the Service does not exist, it has only namespace and name.
	service *corev1.Service
	// whole is true if everything about the Service is reconciled.
	whole bool
	// untouched is true if nothing may be written now.
	untouched bool
	faults    []desired.Fault
	set       desired.Set
	have      map[types.NamespacedName]existing
	// keep are policies that must stay as they are, because their desired state is unknown.
	keep map[types.NamespacedName]bool
	// conflicts are desired names that policies of other Services have.
	conflicts []conflict
	// missing is the ingress controller's namespace, if it does not exist although policies in it are desired.
	missing string
}

// observe reads the caches.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName, asked scope) (*facts, error) {
	f := &facts{
		key: key, whole: asked.whole, service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}},
	}
	if len(r.Visible) > 0 && !slices.Contains(r.Visible, key.Namespace) {
		f.untouched = true // the cache cannot show whether the Service exists
		return f, nil
	}
	wanted, home, err := r.wantsPolicies(ctx, f)
	if err != nil {
		return nil, err
	}
	if !wanted {
		f.whole = true
		f.have, err = r.policiesOf(ctx, key)
		return f, err
	}
	if home != nil && home.DeletionTimestamp != nil {
		f.untouched = true // nothing can be created in this namespace, and the Service is deleted soon
		return f, nil
	}
	exposure, faults := desired.Read(f.service)
	if f.faults = faults; len(faults) > 0 {
		f.untouched = true
		return f, nil
	}
	return f, r.compare(ctx, f, exposure, asked)
}

// wantsPolicies reports whether the Service may have policies at all. The returned namespace is nil if it does not exist.
func (r *Reconciler) wantsPolicies(ctx context.Context, f *facts) (bool, *metav1.PartialObjectMetadata, error) {
	service := &corev1.Service{}
	if err := r.Cached.Get(ctx, f.key, service); apierrors.IsNotFound(err) {
		return false, nil, nil
	} else if err != nil {
		return false, nil, fmt.Errorf("read Service %s: %w", f.key, err)
	}
	f.service = service
	home, err := r.namespace(ctx, f.key.Namespace)
	if err != nil {
		return false, nil, err
	}
	return service.DeletionTimestamp == nil && len(service.Spec.Selector) > 0 && handles(r.Handled, home), home, nil
}

// handles reports whether Services of a namespace are handled. A namespace that does not exist counts as one without labels.
func handles(selectors []labels.Selector, namespace *metav1.PartialObjectMetadata) bool {
	var set labels.Set
	if namespace != nil {
		set = namespace.Labels
	}
	return len(selectors) == 0 || desired.Matches(selectors, set)
}

// namespace returns a namespace from the cache; nil if it does not exist.
func (r *Reconciler) namespace(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	namespace := newNamespace()
	err := r.Cached.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Namespace %s: %w", name, err)
	}
	return namespace, nil
}

func newNamespace() *metav1.PartialObjectMetadata {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace
}

// compare computes the desired policies, and looks up existing policies of these names and of earlier clients.
func (r *Reconciler) compare(ctx context.Context, f *facts, exposure *desired.Exposure, asked scope) error {
	build := desired.NewBuild(exposure)
	build.Instance = r.Own.Instance
	build.Clients(f.key.Namespace)
	build.World()
	if err := r.addIngresses(ctx, f, build); err != nil {
		return err
	}
	clients, others, err := r.clients(ctx, exposure, f.key.Namespace, asked)
	if err != nil {
		return err
	}
	for _, namespace := range clients {
		build.Clients(namespace)
	}
	f.set = build.Set()
	f.have, f.keep = map[types.NamespacedName]existing{}, map[types.NamespacedName]bool{}
	if name, unknown := build.Keep(); unknown {
		f.keep[name] = true
		f.faults = append(f.faults, *exposure.WorldFault)
	}
	if asked.whole {
		if f.have, err = r.policiesOf(ctx, f.key); err != nil {
			return err
		}
	}
	former := desired.NewBuild(exposure)
	former.Instance = r.Own.Instance
	for _, namespace := range others {
		former.Clients(namespace)
	}
	return r.lookUp(ctx, f, former.Set())
}

// addIngresses adds the policies of the ingress controller. If the namespace of the ingress controller does not exist or is being deleted,
// policies cannot be created in it. Then addIngresses sets f.missing, and an event of the namespace triggers the next attempt.
func (r *Reconciler) addIngresses(ctx context.Context, f *facts, build *desired.Build) error {
	if r.IngressController == nil {
		return nil
	}
	list := &networkingv1.IngressList{}
	if err := r.Cached.List(ctx, list, client.InNamespace(f.key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Ingresses of namespace %s: %w", f.key.Namespace, err)
	}
	if !slices.ContainsFunc(list.Items, func(i networkingv1.Ingress) bool { return desired.HasBackend(&i, f.key.Name) }) {
		return nil
	}
	build.Ingresses(f.service, list.Items, *r.IngressController)
	home, err := r.namespace(ctx, r.IngressController.Namespace)
	if err == nil && (home == nil || home.DeletionTimestamp != nil) {
		f.missing = r.IngressController.Namespace
	}
	return err
}

// clients returns the namespaces except the Service's own that are its clients, and those in the scope that are not, both sorted.
func (r *Reconciler) clients(
	ctx context.Context, exposure *desired.Exposure, own string, asked scope,
) (clients, others []string, err error) {
	if asked.whole && exposure.SelectsNone() {
		return nil, nil, nil
	}
	if asked.whole {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
		if err := r.Cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, nil, fmt.Errorf("list Namespaces: %w", err)
		}
		for i := range list.Items {
			if namespace := &list.Items[i]; namespace.Name != own && r.isClient(exposure, namespace) {
				clients = append(clients, namespace.Name)
			}
		}
		slices.Sort(clients)
		return clients, nil, nil
	}
	for name := range asked.clients {
		namespace, err := r.namespace(ctx, name)
		switch {
		case err != nil:
			return nil, nil, err
		case name == own:
		case namespace != nil && r.isClient(exposure, namespace):
			clients = append(clients, name)
		default:
			others = append(others, name)
		}
	}
	slices.Sort(clients)
	slices.Sort(others)
	return clients, others, nil
}

func (r *Reconciler) isClient(exposure *desired.Exposure, namespace *metav1.PartialObjectMetadata) bool {
	set := r.clientLabels(namespace)
	return set != nil && exposure.Selects(set)
}

// clientLabels returns the labels by which Services can select a namespace as a client; nil if no Service may select the namespace.
func (r *Reconciler) clientLabels(namespace *metav1.PartialObjectMetadata) labels.Set {
	if !usable(namespace) || len(r.Visible) > 0 && !slices.Contains(r.Visible, namespace.Name) {
		return nil
	}
	if r.Clients != nil && !desired.Matches(r.Clients, labels.Set(namespace.Labels)) {
		return nil
	}
	if namespace.Labels == nil {
		return labels.Set{}
	}
	return namespace.Labels
}

// policiesOf returns all policies of a Service: the policies in the cache, updated with the controller's own writes that have not arrived
// in the cache.
func (r *Reconciler) policiesOf(ctx context.Context, service types.NamespacedName) (map[types.NamespacedName]existing, error) {
	list := &networkingv1.NetworkPolicyList{}
	if err := r.Cached.List(ctx, list, client.MatchingFields{serviceIndex: service.String()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list NetworkPolicies of Service %s: %w", service, err)
	}
	have := make(map[types.NamespacedName]existing, len(list.Items))
	for i := range list.Items {
		have[client.ObjectKeyFromObject(&list.Items[i])] = asCached(&list.Items[i])
	}
	for policy, fingerprint := range r.Writes.of(service) {
		if fingerprint == gone {
			delete(have, policy)
		} else if have[policy].fingerprint != fingerprint {
			have[policy] = existing{fingerprint: fingerprint}
		}
	}
	return have, nil
}

func asCached(policy *networkingv1.NetworkPolicy) existing {
	return existing{fingerprint: policy.Annotations[fingerprintKey], uid: policy.UID, version: policy.ResourceVersion}
}

// lookUp looks up the desired and the former policies by name. It removes names that other Services have from the set.
func (r *Reconciler) lookUp(ctx context.Context, f *facts, former desired.Set) error {
	written := r.Writes.of(f.key)
	var free []*networkingv1.NetworkPolicy
	for i, policy := range slices.Concat(f.set.Policies, former.Policies) {
		key, wanted := client.ObjectKeyFromObject(policy), i < len(f.set.Policies)
		if f.missing != "" && key.Namespace == f.missing {
			f.keep[key] = true
			continue
		}
		owner, err := r.lookUpOne(ctx, f, key, written)
		if err != nil {
			return err
		}
		switch {
		case owner != f.key && wanted:
			f.conflicts = append(f.conflicts, conflict{policy: key, by: fmt.Sprintf("Service %s", owner)})
		case wanted:
			free = append(free, policy)
		}
	}
	f.set.Policies = free
	return nil
}

// lookUpOne adds a policy to the existing ones if the Service has it, and returns the Service that owns the name or may take it.
func (r *Reconciler) lookUpOne(
	ctx context.Context, f *facts, key types.NamespacedName, written map[types.NamespacedName]string,
) (types.NamespacedName, error) {
	if _, known := f.have[key]; known {
		return f.key, nil
	}
	fingerprint, ours := written[key]
	policy := &networkingv1.NetworkPolicy{}
	err := r.Cached.Get(ctx, key, policy, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return f.key, fmt.Errorf("read NetworkPolicy %s: %w", key, err)
	}
	cached := err == nil
	if owner, _ := desired.Owner(policy); cached && owner != f.key {
		return owner, nil
	}
	switch {
	case ours && fingerprint == gone:
	case ours && policy.Annotations[fingerprintKey] != fingerprint:
		f.have[key] = existing{fingerprint: fingerprint}
	case cached:
		f.have[key] = asCached(policy)
	}
	return f.key, nil
}
