package observe

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"unique"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/health"
	"github.com/espalier-dev/espalier/internal/reflector"
)

var (
	deploymentKind = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	podResource    = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// PodOptions configure Pods.
type PodOptions struct {
	Client metadata.Interface
	// Namespaces are the namespaces in which pods are watched; empty means all.
	Namespaces []string
	// OnChange is called when the number of a Deployment's pods begins or ceases to equal the Deployment's replicas, and while the two
	// numbers differ, for every change of one of its pods. It is also called for a new Deployment, and for all Deployments of a namespace
	// when their pods are listed, and when the API server denies the watch of their pods or allows it again. It must not block.
	OnChange func(namespace, name string)
	Clock    clock.Clock
	Log      logr.Logger
}

// Pods counts, for each managed Deployment, the pods that the selector of the Deployment matches. As long as Deployments are watched, Pods
// watches the metadata of all pods, with one watch, or with one watch for each of Namespaces. The counted pods need not have the
// managed-by label. Pods stores only the labels of pods.
type Pods struct {
	options PodOptions
	// All watches end when lifetime ends.
	lifetime context.Context //nolint:containedctx // the watch outlives the call that starts it

	mu sync.Mutex
	// owners are the stores of the watches of Deployments. stores contains the stores of the watches of pods by namespace, "" for all.
	owners map[*store]struct{}
	stores map[string]*podStore
	// pods contains the labels of pods by namespace and name.
	pods        map[string]map[string]podLabels
	deployments map[string]map[string]*trackedDeployment
}

// podLabels are the labels of a pod, such as ",app=web,tier=front,". Pods with equal labels share the text. The zero value stands for a pod
// that does not exist.
type podLabels = unique.Handle[string]

// trackedDeployment is a Deployment with the number of pods that its selector matches.
type trackedDeployment struct {
	rollout health.Rollout
	// selected are the labels that the selector requires, each in the form ",app=web,".
	selected []string
	pods     int
	// owners are the stores of the watches that show the Deployment.
	owners map[*store]struct{}
}

func (c *trackedDeployment) hasWantedPods() bool { return c.pods == int(c.rollout.Replicas) }

func (c *trackedDeployment) matches(pod podLabels) bool {
	return pod != podLabels{} && !slices.ContainsFunc(c.selected, func(label string) bool { return !strings.Contains(pod.Value(), label) })
}

// NewPods returns Pods without watches. Their watches end with lifetime.
func NewPods(lifetime context.Context, options PodOptions) *Pods {
	return &Pods{
		options: options, lifetime: lifetime, owners: map[*store]struct{}{}, stores: map[string]*podStore{},
		pods: map[string]map[string]podLabels{}, deployments: map[string]map[string]*trackedDeployment{},
	}
}

// Count is the result of comparing a Deployment's pods with its replicas.
type Count int

const (
	// CountUnknown means that pods are not watched: the permission is missing, or Namespaces does not contain the namespace.
	CountUnknown Count = iota
	// CountPending means that the first listing has not arrived yet.
	CountPending
	// CountMatches means that there are as many pods as the Deployment has replicas.
	CountMatches
	// CountDiffers means that there are more or fewer pods.
	CountDiffers
)

// Of compares the number of a Deployment's pods with its replicas, and returns its rollout. For a Deployment that is not tracked, it
// returns CountMatches.
func (p *Pods) Of(namespace, name string) (health.Rollout, Count) {
	p.mu.Lock()
	defer p.mu.Unlock()
	deployment := p.deployments[namespace][name]
	store := p.stores[namespace]
	if store == nil {
		store = p.stores[metav1.NamespaceAll]
	}
	switch {
	case deployment == nil:
		return health.Rollout{}, CountMatches
	case store == nil || store.access.denial() != nil:
		return deployment.rollout, CountUnknown
	case !store.listed:
		return deployment.rollout, CountPending
	case deployment.hasWantedPods():
		return deployment.rollout, CountMatches
	}
	return deployment.rollout, CountDiffers
}

// track starts to count the pods of a Deployment. owner is the store of a watch that shows the Deployment.
func (p *Pods) track(owner *store, key types.NamespacedName, rollout health.Rollout) {
	p.mu.Lock()
	if _, known := p.owners[owner]; !known { // the watch was stopped meanwhile
		p.mu.Unlock()
		return
	}
	known := p.deployments[key.Namespace][key.Name]
	if known != nil && known.rollout.Replicas == rollout.Replicas && maps.Equal(known.rollout.Selector, rollout.Selector) {
		known.owners[owner] = struct{}{}
		p.mu.Unlock()
		return
	}
	next := &trackedDeployment{rollout: rollout, owners: map[*store]struct{}{}}
	if known != nil {
		next.owners = known.owners
	}
	next.owners[owner] = struct{}{}
	for label, value := range rollout.Selector {
		next.selected = append(next.selected, textOf(labels.Set{label: value}))
	}
	for _, pod := range p.pods[key.Namespace] {
		if next.matches(pod) {
			next.pods++
		}
	}
	if p.deployments[key.Namespace] == nil {
		p.deployments[key.Namespace] = map[string]*trackedDeployment{}
	}
	p.deployments[key.Namespace][key.Name] = next
	changed := known == nil || !known.hasWantedPods() || !next.hasWantedPods()
	p.mu.Unlock()
	if changed {
		p.options.OnChange(key.Namespace, key.Name)
	}
}

// forget stops to count the pods of a Deployment, unless another watch contains it too.
func (p *Pods) forget(owner *store, key types.NamespacedName) {
	p.mu.Lock()
	known, forgotten := p.forgetLocked(owner, key)
	p.mu.Unlock()
	if forgotten && !known.hasWantedPods() {
		p.options.OnChange(key.Namespace, key.Name)
	}
}

// forgetLocked is like forget; the caller has locked mu.
func (p *Pods) forgetLocked(owner *store, key types.NamespacedName) (known *trackedDeployment, forgotten bool) {
	known = p.deployments[key.Namespace][key.Name]
	if known == nil {
		return nil, false
	}
	delete(known.owners, owner)
	if len(known.owners) > 0 {
		return known, false
	}
	delete(p.deployments[key.Namespace], key.Name)
	if len(p.deployments[key.Namespace]) == 0 {
		delete(p.deployments, key.Namespace)
	}
	return known, true
}

// addOwner records a watch of Deployments. If Pods are not watched yet, addOwner starts to watch them.
func (p *Pods) addOwner(owner *store) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owners[owner] = struct{}{}
	if len(p.stores) > 0 {
		return
	}
	namespaces := p.options.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		p.watch(p.newStore(namespace))
	}
}

// removeOwner removes a watch of Deployments, and stops to watch pods if it was the last one.
func (p *Pods) removeOwner(owner *store) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.owners, owner)
	for _, key := range p.keys(metav1.NamespaceAll) {
		p.forgetLocked(owner, key)
	}
	if len(p.owners) > 0 {
		return
	}
	for _, each := range p.stores {
		each.stop()
	}
	clear(p.stores)
	clear(p.pods)
}

// newStore adds the store for the pods of a namespace. The caller has locked mu.
func (p *Pods) newStore(namespace string) *podStore {
	created := &podStore{pods: p, namespace: namespace, stop: func() {}, access: newAccess(p.options.Clock)}
	p.stores[namespace] = created
	return created
}

func (p *Pods) watch(s *podStore) {
	ctx, stop := context.WithCancel(p.lifetime)
	s.stop = stop
	pods := reflector.Untyped(p.options.Client.Resource(podResource).Namespace(s.namespace))
	go reflector.Run(ctx, reflector.Options{
		Name: "pods of Deployments", Client: s.access.client(pods, func(*metav1.ListOptions) {}, s.onAccessChange), Connection: p.options.Client,
		Log: p.options.Log.WithValues("resource", "pods", "namespace", s.namespace),
	}, labelsOf, s)
}

// podStore receives the pods of one watch.
type podStore struct {
	pods      *Pods
	namespace string
	stop      context.CancelFunc
	access    *access
	// listed is true after the first listing. The lock of pods guards it.
	listed bool
}

// onAccessChange reports the Deployments of a namespace when their pods can no longer be counted, or can be counted again. So a missing
// permission does not delay the conditions of a set.
func (s *podStore) onAccessChange(change accessChange, err error) {
	switch change {
	case accessUnchanged:
		return
	case accessDenied:
		s.pods.options.Log.Info("Cannot watch pods, so a Deployment counts as rolled out while old pods of it still run; grant list and "+
			"watch of pods in the target",
			"namespace", s.namespace, "reason", err.Error())
	case accessRestored:
		s.pods.options.Log.Info("Can watch pods again", "namespace", s.namespace)
	}
	s.pods.mu.Lock()
	affected := s.pods.keys(s.namespace)
	s.pods.mu.Unlock()
	s.pods.reportChanges(affected)
}

// keys lists the Deployments of a namespace, "" for all. The caller has locked mu.
func (p *Pods) keys(in string) []types.NamespacedName {
	var keys []types.NamespacedName
	for namespace, deployments := range p.deployments {
		if in != metav1.NamespaceAll && in != namespace {
			continue
		}
		for name := range deployments {
			keys = append(keys, types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	return keys
}

func (p *Pods) reportChanges(deployments []types.NamespacedName) {
	for _, key := range deployments {
		p.options.OnChange(key.Namespace, key.Name)
	}
}

// setLabels stores a pod's labels, and returns the Deployments for which OnChange must be called. The caller has locked mu.
func (p *Pods) setLabels(key types.NamespacedName, after podLabels) []types.NamespacedName {
	before := p.pods[key.Namespace][key.Name]
	p.storeLabels(key, after)
	var affected []types.NamespacedName
	for name, deployment := range p.deployments[key.Namespace] {
		was, is := deployment.matches(before), deployment.matches(after)
		if !was && !is {
			continue
		}
		settled := deployment.hasWantedPods()
		if was {
			deployment.pods--
		}
		if is {
			deployment.pods++
		}
		if !settled || !deployment.hasWantedPods() {
			affected = append(affected, types.NamespacedName{Namespace: key.Namespace, Name: name})
		}
	}
	return affected
}

// storeLabels replaces a pod's labels. The caller has locked mu.
func (p *Pods) storeLabels(key types.NamespacedName, next podLabels) {
	if next == (podLabels{}) {
		delete(p.pods[key.Namespace], key.Name)
		if len(p.pods[key.Namespace]) == 0 {
			delete(p.pods, key.Namespace)
		}
		return
	}
	if p.pods[key.Namespace] == nil {
		p.pods[key.Namespace] = map[string]podLabels{}
	}
	p.pods[key.Namespace][key.Name] = next
}

// isCurrent reports whether the store is still in use. The caller has locked s.pods.mu.
func (s *podStore) isCurrent() bool { return s.pods.stores[s.namespace] == s }

// labelsOf returns a pod's labels.
func labelsOf(pod client.Object) (podLabels, bool) { return unique.Make(textOf(pod.GetLabels())), true }

// textOf returns labels as a text. It contains textOf of each single label, so a search for that text finds the label.
func textOf(set labels.Set) string { return "," + set.String() + "," }

// Set implements reflector.Receiver.
func (s *podStore) Set(key types.NamespacedName, next podLabels) {
	var affected []types.NamespacedName
	s.pods.mu.Lock()
	if s.isCurrent() {
		affected = s.pods.setLabels(key, next)
	}
	s.pods.mu.Unlock()
	s.pods.reportChanges(affected)
}

// Delete implements reflector.Receiver.
func (s *podStore) Delete(key types.NamespacedName, _ string) { s.Set(key, podLabels{}) }

// Replace implements reflector.Receiver.
func (s *podStore) Replace(next map[types.NamespacedName]podLabels, _ string) {
	s.pods.reportChanges(s.replace(next))
	s.onAccessChange(s.access.recordListing(), nil)
}

// replace replaces all pods of the watched namespace by a listing, and returns all Deployments of that namespace.
func (s *podStore) replace(next map[types.NamespacedName]podLabels) []types.NamespacedName {
	p := s.pods
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.isCurrent() {
		return nil
	}
	for namespace, pods := range p.pods {
		if s.namespace != metav1.NamespaceAll && s.namespace != namespace {
			continue
		}
		for _, name := range slices.Collect(maps.Keys(pods)) {
			key := types.NamespacedName{Namespace: namespace, Name: name}
			if _, exists := next[key]; !exists {
				p.setLabels(key, podLabels{})
			}
		}
	}
	for key, found := range next {
		p.setLabels(key, found)
	}
	s.listed = true
	return p.keys(s.namespace)
}
