package observe

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/internal/health"
)

var (
	deploymentKind = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	podResource    = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// PodOptions configure Pods.
type PodOptions struct {
	Client metadata.Interface
	// Namespaces restricts the watch; empty means all.
	Namespaces []string
	// OnChange is called when the number of a Deployment's pods changed, and, while it is not what the Deployment asks
	// for, on every change of one of them. It must not block.
	OnChange func(namespace, name string)
	Clock    clock.Clock
	Log      logr.Logger
}

// Pods counts, from metadata alone, the pods that the selectors of managed Deployments match. One watch on the metadata
// of all pods, or one in each namespace, runs as long as Deployments are watched: pods need not carry the managed-by
// label. Of a pod its labels are kept.
type Pods struct {
	options PodOptions
	// lifetime ends the watch.
	lifetime context.Context //nolint:containedctx // the watch outlives the call that starts it

	mu sync.Mutex
	// owners are the watches of Deployments; streams the watches of pods by namespace, "" for all.
	owners  map[*store]struct{}
	streams map[string]*podStore
	// pods holds the labels of pods by namespace and name; equal ones are shared, sets counts who shares them.
	pods        map[string]map[string]*labelSet
	sets        map[string]*labelSet
	deployments map[string]map[string]*counted
}

type labelSet struct {
	labels labels.Set
	text   string
	users  int
}

// counted is a Deployment with the number of pods that its selector matches.
type counted struct {
	rollout health.Rollout
	pods    int
	// owners are the watches that show the Deployment.
	owners map[*store]struct{}
}

func (c *counted) settled() bool { return c.pods == int(c.rollout.Replicas) }

func (c *counted) matches(pod *labelSet) bool {
	for key, value := range c.rollout.Selector {
		if have, found := pod.labels[key]; !found || have != value {
			return false
		}
	}
	return true
}

// NewPods returns Pods that watch nothing yet. What they watch ends with lifetime.
func NewPods(lifetime context.Context, options PodOptions) *Pods {
	return &Pods{
		options: options, lifetime: lifetime, owners: map[*store]struct{}{}, streams: map[string]*podStore{},
		pods: map[string]map[string]*labelSet{}, sets: map[string]*labelSet{}, deployments: map[string]map[string]*counted{},
	}
}

// Count is what is known of a Deployment's pods.
type Count int

const (
	// CountUnknown means that nobody can tell: the rights are missing.
	CountUnknown Count = iota
	// CountPending means that the first listing is not there yet.
	CountPending
	// CountMatches means that there are as many pods as the Deployment asks for.
	CountMatches
	// CountDiffers means that there are more or fewer.
	CountDiffers
)

// Of compares a Deployment's pods with what it asks for, and returns what that is. A Deployment that is not tracked
// matches.
func (p *Pods) Of(namespace, name string) (health.Rollout, Count) {
	p.mu.Lock()
	defer p.mu.Unlock()
	deployment := p.deployments[namespace][name]
	stream := p.streams[namespace]
	if stream == nil {
		stream = p.streams[metav1.NamespaceAll]
	}
	switch {
	case deployment == nil:
		return health.Rollout{}, CountMatches
	case stream == nil || stream.admission.denial() != nil:
		return deployment.rollout, CountUnknown
	case !stream.listed:
		return deployment.rollout, CountPending
	case deployment.settled():
		return deployment.rollout, CountMatches
	}
	return deployment.rollout, CountDiffers
}

// track counts the pods of a Deployment that a watch shows, from now on.
func (p *Pods) track(owner *store, key types.NamespacedName, rollout health.Rollout) {
	p.mu.Lock()
	if _, known := p.owners[owner]; !known { // it was stopped meanwhile
		p.mu.Unlock()
		return
	}
	known := p.deployments[key.Namespace][key.Name]
	if known != nil && known.rollout.Replicas == rollout.Replicas && maps.Equal(known.rollout.Selector, rollout.Selector) {
		known.owners[owner] = struct{}{}
		p.mu.Unlock()
		return
	}
	next := &counted{rollout: rollout, owners: map[*store]struct{}{}}
	if known != nil {
		next.owners = known.owners
	}
	next.owners[owner] = struct{}{}
	for _, pod := range p.pods[key.Namespace] {
		if next.matches(pod) {
			next.pods++
		}
	}
	if p.deployments[key.Namespace] == nil {
		p.deployments[key.Namespace] = map[string]*counted{}
	}
	p.deployments[key.Namespace][key.Name] = next
	changed := known == nil || !known.settled() || !next.settled()
	p.mu.Unlock()
	if changed {
		p.options.OnChange(key.Namespace, key.Name)
	}
}

// forget counts the pods of a Deployment no longer, unless another watch shows it too.
func (p *Pods) forget(owner *store, key types.NamespacedName) {
	p.mu.Lock()
	known, forgotten := p.disown(owner, key)
	p.mu.Unlock()
	if forgotten && !known.settled() {
		p.options.OnChange(key.Namespace, key.Name)
	}
}

// disown is forget for a caller that holds the lock.
func (p *Pods) disown(owner *store, key types.NamespacedName) (known *counted, forgotten bool) {
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

// start begins to watch pods, if a watch of Deployments is the first one.
func (p *Pods) start(owner *store) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owners[owner] = struct{}{}
	if len(p.streams) > 0 {
		return
	}
	namespaces := p.options.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		p.watch(p.open(namespace))
	}
}

// release forgets the Deployments that a watch showed, and stops to watch pods if it was the last one.
func (p *Pods) release(owner *store) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.owners, owner)
	for _, key := range p.keys(metav1.NamespaceAll) {
		p.disown(owner, key)
	}
	if len(p.owners) > 0 {
		return
	}
	for _, each := range p.streams {
		each.stop()
	}
	clear(p.streams)
	clear(p.pods)
	clear(p.sets)
}

// open makes what receives the pods of a namespace. The caller holds the lock.
func (p *Pods) open(namespace string) *podStore {
	opened := &podStore{pods: p, namespace: namespace, stop: func() {}, admission: newAdmission(p.options.Clock)}
	p.streams[namespace] = opened
	return opened
}

func (p *Pods) watch(s *podStore) {
	ctx, stop := context.WithCancel(p.lifetime)
	s.stop = stop
	client := metadataCollection{p.options.Client.Resource(podResource).Namespace(s.namespace)}
	listWatch := s.admission.source(client, p.options.Client, func(*metav1.ListOptions) {}, s.turned)
	log := p.options.Log.WithValues("resource", "pods", "namespace", s.namespace)
	reflector := cache.NewReflectorWithOptions(listWatch, &metav1.PartialObjectMetadata{}, s,
		cache.ReflectorOptions{Name: "pods of Deployments", Logger: &log})
	go reflector.RunWithContext(logr.NewContext(ctx, log))
}

// podStore receives what one reflector sees.
type podStore struct {
	pods      *Pods
	namespace string
	stop      context.CancelFunc
	admission *admission
	// listed tells that there was a listing; guarded by the lock of pods.
	listed bool
}

// turned tells the Deployments of a namespace that their pods are counted no longer, or again: a missing right must not
// hold up the conditions.
func (s *podStore) turned(change turn, err error) {
	switch change {
	case unchanged:
		return
	case turnedDown:
		s.pods.options.Log.Info("Cannot watch pods, so a Deployment counts as rolled out while old pods of it still run; grant list and watch of pods in the target",
			"namespace", s.namespace, "reason", err.Error())
	case restored:
		s.pods.options.Log.Info("Can watch pods again", "namespace", s.namespace)
	}
	s.pods.mu.Lock()
	affected := s.pods.keys(s.namespace)
	s.pods.mu.Unlock()
	s.pods.tell(affected)
}

// keys lists the Deployments of a namespace, "" for all. The caller holds the lock.
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

func (p *Pods) tell(deployments []types.NamespacedName) {
	for _, key := range deployments {
		p.options.OnChange(key.Namespace, key.Name)
	}
}

// set records a pod's labels, nil once it is gone, and returns the Deployments that this matters to. The caller holds
// the lock.
func (p *Pods) set(key types.NamespacedName, next labels.Set) []types.NamespacedName {
	before := p.pods[key.Namespace][key.Name]
	after := p.keep(key, before, next)
	var affected []types.NamespacedName
	for name, deployment := range p.deployments[key.Namespace] {
		was, is := before != nil && deployment.matches(before), after != nil && deployment.matches(after)
		if !was && !is {
			continue
		}
		settled := deployment.settled()
		if was {
			deployment.pods--
		}
		if is {
			deployment.pods++
		}
		if !settled || !deployment.settled() {
			affected = append(affected, types.NamespacedName{Namespace: key.Namespace, Name: name})
		}
	}
	return affected
}

// keep stores a pod's labels in place of those that it had. The caller holds the lock.
func (p *Pods) keep(key types.NamespacedName, before *labelSet, next labels.Set) *labelSet {
	var after *labelSet
	if next != nil {
		text := next.String()
		if after = p.sets[text]; after == nil {
			after = &labelSet{labels: next, text: text}
			p.sets[text] = after
		}
		after.users++
		if p.pods[key.Namespace] == nil {
			p.pods[key.Namespace] = map[string]*labelSet{}
		}
		p.pods[key.Namespace][key.Name] = after
	} else {
		delete(p.pods[key.Namespace], key.Name)
		if len(p.pods[key.Namespace]) == 0 {
			delete(p.pods, key.Namespace)
		}
	}
	if before != nil {
		before.users--
		if before.users == 0 {
			delete(p.sets, before.text)
		}
	}
	return after
}

// current tells whether the stream still counts. The caller holds the lock.
func (s *podStore) current() bool { return s.pods.streams[s.namespace] == s }

// Transformer keeps a listing small while the reflector still collects it.
func (s *podStore) Transformer() cache.TransformFunc {
	return func(item any) (any, error) {
		if object, ok := item.(*metav1.PartialObjectMetadata); ok {
			object.ObjectMeta = metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name, Labels: object.Labels, ResourceVersion: object.ResourceVersion}
		}
		return item, nil
	}
}

// labelsOf returns a pod's labels, never nil.
func labelsOf(object metav1.Object) labels.Set {
	if found := object.GetLabels(); found != nil {
		return found
	}
	return labels.Set{}
}

// Add is called by the reflector.
func (s *podStore) Add(item any) error { return s.Update(item) }

// Update is called by the reflector.
func (s *podStore) Update(item any) error {
	object, ok := item.(metav1.Object)
	if !ok {
		return fmt.Errorf("observe pod: unexpected type %T", item)
	}
	s.change(object, labelsOf(object))
	return nil
}

// Delete is called by the reflector.
func (s *podStore) Delete(item any) error {
	if tombstone, ok := item.(cache.DeletedFinalStateUnknown); ok {
		item = tombstone.Obj
	}
	object, ok := item.(metav1.Object)
	if !ok {
		return fmt.Errorf("observe pod: unexpected type %T", item)
	}
	s.change(object, nil)
	return nil
}

func (s *podStore) change(object metav1.Object, next labels.Set) {
	var affected []types.NamespacedName
	s.pods.mu.Lock()
	if s.current() {
		affected = s.pods.set(keyOf(object), next)
	}
	s.pods.mu.Unlock()
	s.pods.tell(affected)
}

// Replace is called by the reflector with a complete listing.
func (s *podStore) Replace(items []any, _ string) error {
	next := make(map[types.NamespacedName]labels.Set, len(items))
	for _, item := range items {
		object, ok := item.(metav1.Object)
		if !ok {
			return fmt.Errorf("observe pods: unexpected type %T", item)
		}
		next[keyOf(object)] = labelsOf(object)
	}
	s.pods.tell(s.replace(next))
	s.turned(s.admission.sawListing(), nil)
	return nil
}

// replace puts a listing in place and returns the Deployments that it is about.
func (s *podStore) replace(next map[types.NamespacedName]labels.Set) []types.NamespacedName {
	p := s.pods
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.current() {
		return nil
	}
	for namespace, pods := range p.pods {
		if s.namespace != metav1.NamespaceAll && s.namespace != namespace {
			continue
		}
		for _, name := range slices.Collect(maps.Keys(pods)) {
			if key := (types.NamespacedName{Namespace: namespace, Name: name}); next[key] == nil {
				p.set(key, nil)
			}
		}
	}
	for key, found := range next {
		p.set(key, found)
	}
	s.listed = true
	return p.keys(s.namespace)
}

// Resync is called by the reflector; there is nothing to repeat.
func (s *podStore) Resync() error { return nil }
