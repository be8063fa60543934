package observe

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

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
	Log      logr.Logger
}

// Pods counts, from metadata alone, the pods that the selectors of managed Deployments match. One watch on the metadata
// of all pods starts with the first Deployment: pods need not carry the managed-by label. Of a pod its labels are kept.
type Pods struct {
	options PodOptions
	// lifetime ends the watch.
	lifetime context.Context //nolint:containedctx // the watch outlives the call that starts it
	once     sync.Once

	mu sync.Mutex
	// unsynced is how many listings are still awaited, counting from the start; denied tells that one was refused.
	unsynced int
	denied   bool
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
		options: options, lifetime: lifetime, unsynced: max(1, len(options.Namespaces)),
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
	switch {
	case deployment == nil:
		return health.Rollout{}, CountMatches
	case p.denied:
		return deployment.rollout, CountUnknown
	case p.unsynced > 0:
		return deployment.rollout, CountPending
	case deployment.settled():
		return deployment.rollout, CountMatches
	}
	return deployment.rollout, CountDiffers
}

// track counts the pods of a Deployment from now on.
func (p *Pods) track(key types.NamespacedName, rollout health.Rollout) {
	p.mu.Lock()
	known := p.deployments[key.Namespace][key.Name]
	if known != nil && known.rollout.Replicas == rollout.Replicas && maps.Equal(known.rollout.Selector, rollout.Selector) {
		p.mu.Unlock()
		return
	}
	next := &counted{rollout: rollout}
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

// forget counts the pods of a Deployment no longer.
func (p *Pods) forget(key types.NamespacedName) {
	p.mu.Lock()
	known := p.deployments[key.Namespace][key.Name]
	delete(p.deployments[key.Namespace], key.Name)
	if len(p.deployments[key.Namespace]) == 0 {
		delete(p.deployments, key.Namespace)
	}
	p.mu.Unlock()
	if known != nil && !known.settled() {
		p.options.OnChange(key.Namespace, key.Name)
	}
}

// start begins to watch, once.
func (p *Pods) start() {
	p.once.Do(func() {
		namespaces := p.options.Namespaces
		if len(namespaces) == 0 {
			namespaces = []string{""}
		}
		for _, namespace := range namespaces {
			p.watch(namespace)
		}
	})
}

func (p *Pods) watch(namespace string) {
	ctx, stop := context.WithCancel(p.lifetime)
	client := p.options.Client.Resource(podResource).Namespace(namespace)
	check := func(err error) {
		if apierrors.IsForbidden(err) {
			p.refuse(err)
			stop()
		}
	}
	listWatch := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := client.List(ctx, options)
			check(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			stream, err := client.Watch(ctx, options)
			check(err)
			return stream, err
		},
	}, p.options.Client)
	log := p.options.Log.WithValues("resource", "pods", "namespace", namespace)
	reflector := cache.NewReflectorWithOptions(listWatch, &metav1.PartialObjectMetadata{}, &podStore{pods: p, namespace: namespace},
		cache.ReflectorOptions{Name: "pods of Deployments", Logger: &log})
	go func() {
		defer stop()
		reflector.RunWithContext(logr.NewContext(ctx, log))
	}()
}

// refuse gives up counting: a missing right must not hold up the conditions.
func (p *Pods) refuse(err error) {
	p.mu.Lock()
	first := !p.denied
	p.denied = true
	all := p.keys()
	p.mu.Unlock()
	if first {
		p.options.Log.Info("Cannot watch pods, so a Deployment counts as rolled out while old pods of it still run; grant list and watch of pods in the target", "reason", err.Error())
	}
	p.tell(all)
}

// keys lists all Deployments. The caller holds the lock.
func (p *Pods) keys() []types.NamespacedName {
	var keys []types.NamespacedName
	for namespace, deployments := range p.deployments {
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

// podStore receives what one reflector sees.
type podStore struct {
	pods      *Pods
	namespace string
	once      sync.Once
}

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
	s.pods.mu.Lock()
	affected := s.pods.set(keyOf(object), next)
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
	p := s.pods
	p.mu.Lock()
	for namespace, pods := range p.pods {
		if s.namespace != "" && s.namespace != namespace {
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
	s.once.Do(func() { p.unsynced-- })
	all := p.keys()
	p.mu.Unlock()
	p.tell(all)
	return nil
}

// Resync is called by the reflector; there is nothing to repeat.
func (s *podStore) Resync() error { return nil }
