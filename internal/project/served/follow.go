package served

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// What is watched to know who serves a kind. Of APIServices that are about the group the status is read when they change.
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,verbs=get;list;watch,roleName=espalier-project-controller-source
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch,roleName=espalier-project-controller-source
// What counts as use is watched, the Secrets of all namespaces as metadata.
// +kubebuilder:rbac:groups=core.gardener.cloud,resources=shoots;plants;backupentries;secretbindings;quotas,verbs=list;watch,roleName=espalier-project-controller-source
// +kubebuilder:rbac:groups="",resources=secrets,verbs=list;watch,roleName=espalier-project-controller-source

// The pause between two attempts to find out what is served grows from the one to the other, as long as nobody can tell.
const (
	shortestPause = 100 * time.Millisecond
	longestPause  = 5 * time.Minute
	// askTimeout bounds one attempt: a server that is down may not even refuse.
	askTimeout = 30 * time.Second
)

func apiServices() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
}

func customResourceDefinitions() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

func (t *Tracker) connect() (err error) {
	cfg, httpClient := t.options.Clusters.Source.GetConfig(), t.options.Clusters.Source.GetHTTPClient()
	if t.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(cfg, httpClient); err != nil {
		return fmt.Errorf("create discovery client: %w", err)
	}
	if t.dynamic, err = dynamic.NewForConfigAndClient(cfg, httpClient); err != nil {
		return fmt.Errorf("create client for APIServices: %w", err)
	}
	if t.metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(cfg), httpClient); err != nil {
		return fmt.Errorf("create client for metadata: %w", err)
	}
	codecs := serializer.NewCodecFactory(t.options.Clusters.Source.GetScheme())
	t.typed, err = apiutil.RESTClientForGVK(corev1beta1.SchemeGroupVersion.WithKind(string(Shoot)), true, false, cfg, codecs, httpClient)
	if err != nil {
		return fmt.Errorf("create client for Shoots: %w", err)
	}
	return nil
}

// watchGroup prepares the watches that say when to find out anew.
func (t *Tracker) watchGroup() (err error) {
	if t.services, err = t.watchMetadata(apiServices()); err != nil {
		return err
	}
	t.definitions, err = t.watchMetadata(customResourceDefinitions())
	return err
}

func (t *Tracker) watchMetadata(resource schema.GroupVersionResource) (*watch, error) {
	w, err := newWatch(t.metadataReader(resource), &metav1.PartialObjectMetadata{}, toolscache.Indexers{}, t.findOut)
	if err != nil {
		return nil, err
	}
	ofGroup := func(object any) {
		if found := Deleted(object); found != nil && strings.HasSuffix(found.GetName(), "."+corev1beta1.GroupName) {
			t.findOut()
		}
	}
	_, err = w.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: ofGroup, UpdateFunc: func(_, now any) { ofGroup(now) }, DeleteFunc: ofGroup})
	return w, err //nolint:wrapcheck // not possible before it runs
}

func (t *Tracker) metadataReader(resource schema.GroupVersionResource) reader {
	client := t.metadata.Resource(resource)
	return reader{
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		watch: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			return client.Watch(ctx, options)
		},
	}
}

// typedReader reads objects of which more than metadata is needed.
func (t *Tracker) typedReader(resource string, empty runtime.Object) reader {
	parameters := runtime.NewParameterCodec(t.options.Clusters.Source.GetScheme())
	return reader{
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := empty.DeepCopyObject()
			return list, t.typed.Get().Resource(resource).VersionedParams(&options, parameters).Do(ctx).Into(list)
		},
		watch: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			options.Watch = true
			return t.typed.Get().Resource(resource).VersionedParams(&options, parameters).Watch(ctx)
		},
	}
}

// findOut makes the loop ask again.
func (t *Tracker) findOut() {
	t.mu.Lock()
	t.changes++
	t.mu.Unlock()
	t.rouse()
}

func (t *Tracker) rouse() {
	select {
	case t.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Tracker) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (t *Tracker) Start(ctx context.Context) error {
	var running wait.Group
	defer running.Wait()
	defer t.forgetAll()
	for _, w := range []*watch{t.services, t.definitions} {
		running.Start(func() { w.RunWithContext(ctx) })
		running.Start(func() {
			if toolscache.WaitForCacheSync(ctx.Done(), w.HasSynced) {
				t.findOut()
			}
		})
	}
	pause := shortestPause
	for {
		certain := t.refresh(ctx, &running)
		var again <-chan time.Time
		if certain {
			pause = shortestPause
		} else {
			again = time.After(pause) // not the clock that projects age by
			pause = min(2*pause, longestPause)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.wake:
		case <-again:
		}
	}
}

// leader makes the Tracker of the leader watch objects.
type leader struct{ *Tracker }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (leader) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (l leader) Start(ctx context.Context) error {
	l.mu.Lock()
	l.leading = true
	l.mu.Unlock()
	l.rouse()
	<-ctx.Done()
	return nil
}

// refresh finds out what is served and begins and ends the watches of kinds. It returns false if it should be tried again
// although nothing has changed.
func (t *Tracker) refresh(ctx context.Context, running *wait.Group) (certain bool) {
	t.mu.Lock()
	considered, before := t.changes, t.judged
	t.mu.Unlock()
	judged, servedBy, certain := t.ask(ctx)
	if ctx.Err() != nil {
		return true
	}
	t.mu.Lock()
	t.judged, t.servedBy, t.considered = judged, servedBy, considered
	leading := t.leading
	t.mu.Unlock()
	for _, kind := range Kinds() {
		if before[kind] != judged[kind] {
			log.FromContext(ctx).Info("Found out whether a kind is served", "kind", kind, "state", judged[kind].State, "why", judged[kind].Why)
		}
		if leading {
			t.follow(ctx, running, kind, judged[kind].State, servedBy[kind])
		}
	}
	t.tell()
	return certain
}

// tell makes those look who go by what is served.
func (t *Tracker) tell() {
	t.showMetrics()
	for _, f := range t.onChange {
		f()
	}
}

// ask asks the API server.
func (t *Tracker) ask(ctx context.Context) (judged map[Kind]Finding, servedBy map[Kind]types.UID, certain bool) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	judged, servedBy, certain = map[Kind]Finding{Secret: {State: Served}}, map[Kind]types.UID{}, true
	facts, problem := t.gather(ctx)
	for _, kind := range Kinds() {
		switch {
		case kind == Secret:
		case problem != nil:
			judged[kind] = *problem
		default:
			judged[kind], servedBy[kind] = judge(facts, kind)
		}
		// Watches that have not filled their caches yet call when they have.
		if judged[kind].State == Unknown && judged[kind].Why != "" {
			certain = false
		}
	}
	return judged, servedBy, certain
}

// gather returns what the API server says, or why it is not known.
func (t *Tracker) gather(ctx context.Context) (facts, *Finding) {
	f := facts{definitions: map[string]types.UID{}, listed: map[Kind]bool{}}
	for _, w := range []*watch{t.services, t.definitions} {
		if err := w.failure(); err != nil {
			problem := unknown("cannot watch APIServices or CustomResourceDefinitions: %v", err)
			return f, &problem
		}
		if !w.HasSynced() {
			return f, &Finding{State: Unknown}
		}
	}
	for _, object := range t.definitions.GetStore().List() {
		if found, ok := object.(metav1.Object); ok {
			f.definitions[found.GetName()] = found.GetUID()
		}
	}
	err := t.readServices(ctx, &f)
	if err == nil {
		err = t.discover(ctx, &f)
	}
	if err != nil {
		problem := unknown("%v", err)
		return f, &problem
	}
	return f, nil
}

// readServices reads the APIServices of the group.
func (t *Tracker) readServices(ctx context.Context, f *facts) error {
	for _, name := range t.services.GetStore().ListKeys() {
		if !strings.HasSuffix(name, "."+corev1beta1.GroupName) {
			continue
		}
		found, err := t.dynamic.Resource(apiServices()).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue // the watch is about to tell
		}
		if err != nil {
			return fmt.Errorf("read APIService %s: %w", name, err)
		}
		f.services = append(f.services, serviceOf(found))
	}
	return nil
}

func serviceOf(found *unstructured.Unstructured) service {
	s := service{name: found.GetName(), uid: found.GetUID(), message: "it has no condition Available"}
	s.version, _, _ = unstructured.NestedString(found.Object, "spec", "version")
	reference, _, _ := unstructured.NestedMap(found.Object, "spec", "service")
	s.backed = reference != nil
	conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
	for _, each := range conditions {
		if condition, ok := each.(map[string]any); ok && condition["type"] == "Available" {
			s.available = condition["status"] == "True"
			s.message, _ = condition["message"].(string)
		}
	}
	return s
}

// discover reads which kinds the group's version has. A version that is not known has none; judge decides whether that can be.
func (t *Tracker) discover(ctx context.Context, f *facts) error {
	list, err := t.discovery.ServerResourcesForGroupVersionWithContext(ctx, corev1beta1.SchemeGroupVersion.String())
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("discover the kinds of %s: %w", corev1beta1.SchemeGroupVersion, err)
	}
	for _, resource := range list.APIResources {
		if strings.Contains(resource.Name, "/") {
			continue
		}
		f.listed[Kind(resource.Kind)] = true
		f.projects = f.projects || resource.Kind == "Project"
	}
	return nil
}

// follow makes the watch of a kind as it should be. One that nobody can tell anything of stays as it is.
func (t *Tracker) follow(ctx context.Context, running *wait.Group, kind Kind, state State, of types.UID) {
	t.mu.Lock()
	current := t.followed[kind]
	t.mu.Unlock()
	if current != nil && (state == Absent || state == Served && current.of != of) {
		t.forget(kind, current)
		current = nil
	}
	if current != nil || state != Served {
		return
	}
	next, err := t.newFollowing(kind)
	if err != nil {
		log.FromContext(ctx).Error(err, "Could not watch a kind", "kind", kind) // not possible before it runs
		return
	}
	watching, stop := context.WithCancel(ctx)
	next.of, next.stop = of, stop
	t.mu.Lock()
	t.followed[kind] = next
	t.mu.Unlock()
	running.Start(func() { next.RunWithContext(watching) })
	running.Start(func() {
		if toolscache.WaitForCacheSync(watching.Done(), next.HasSynced) {
			t.tell()
		}
	})
}

func (t *Tracker) newFollowing(kind Kind) (*watch, error) {
	var read reader
	var example runtime.Object = &metav1.PartialObjectMetadata{}
	switch kind {
	case Shoot:
		read, example = t.typedReader(kind.Resource().Resource, &corev1beta1.ShootList{}), &corev1beta1.Shoot{}
	case SecretBinding:
		read, example = t.typedReader(kind.Resource().Resource, &corev1beta1.SecretBindingList{}), &corev1beta1.SecretBinding{}
	default:
		read = t.metadataReader(kind.Resource())
	}
	next, err := newWatch(read, example, kind.indexers(), t.tell)
	if err != nil {
		return nil, err
	}
	for _, handler := range t.handlers[kind] {
		if _, err := next.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("add handler: %w", err)
		}
	}
	return next, nil
}

// forget ends a watch. Its objects went with their kind.
func (t *Tracker) forget(kind Kind, current *watch) {
	t.mu.Lock()
	delete(t.followed, kind)
	t.mu.Unlock()
	current.stop()
}

func (t *Tracker) forgetAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, each := range t.followed {
		each.stop()
	}
}
