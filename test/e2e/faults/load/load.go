package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/test/e2e/cluster"
	"github.com/espalier-dev/espalier/test/local"
)

const (
	// retryPause is the pause between two attempts of a change, and between two reads of the cluster.
	retryPause = 250 * time.Millisecond
	// attempt is the time limit of one request.
	attempt = 5 * time.Second
	// acceptance is how long changes may be refused after the end of a fault.
	acceptance = 2 * time.Minute
)

// family is one kind of work. It changes values, which it calls lanes; each change gives a lane its next revision.
type family interface {
	common() base
	// create creates the objects to work on. It may be called again after an error.
	create(ctx context.Context) error
	// change writes a revision of a lane into the cluster. It is called again until it succeeds.
	change(ctx context.Context, lane string, revision int) error
	// results returns the revision that has arrived for each lane, see revisions, and a text for each other object that is not in the
	// expected state.
	results(ctx context.Context) (arrived map[string]int, unsettled []string, err error)
}

// Load is steady work for all binaries, in a namespace.
type Load struct {
	// Namespace contains all objects except Projects, Nodes and CertificateSigningRequests.
	Namespace string

	cluster  *cluster.Cluster
	families []family
	remove   func(context.Context) error
	clock    clock.PassiveClock

	mu sync.Mutex // guards the fields below
	// wanted contains, for each value, the times since which its revisions were wanted, beginning with revision 1. The last one is current.
	wanted  map[string][]time.Time
	deleted sets.Set[types.UID]
}

// Figures are the counts for one period of work.
type Figures struct {
	// Changes is the number of changes that the API server has accepted. Refusals is the number of failed requests before.
	Changes, Refusals int
	// Unaccepted contains the changes that were never accepted, by the name of the value, with the last error.
	Unaccepted map[string]string
	// Asked is the number of Pods that were sent to the webhooks. Unanswered is the number of Pods that were not accepted, for any reason.
	// Unchanged is the number of Pods that were accepted without the changes of the webhooks, which must never happen.
	Asked, Unanswered, Unchanged int
}

// New creates the objects to work on, and waits until all of them are in the expected state.
func New(ctx context.Context, c *cluster.Cluster) (*Load, error) {
	namespace, remove, err := c.Namespace(ctx, "load", map[string]string{
		"espalier.dev/network-policies": "enabled", resourcesv1alpha1.SetsAllowedLabel: resourcesv1alpha1.SetsAllowed,
	})
	if err != nil {
		return nil, fmt.Errorf("create load: %w", err)
	}
	l := &Load{
		Namespace: namespace, cluster: c, remove: remove, clock: clock.RealClock{}, wanted: map[string][]time.Time{},
		deleted: sets.New[types.UID](),
	}
	l.families = l.allFamilies()
	for _, f := range l.families {
		if err = insist(ctx, acceptance, f.create); err != nil {
			return l, fmt.Errorf("create load: %s: %w", f.common().title, err)
		}
		for _, lane := range f.common().lanes {
			if err = l.advance(ctx, f, lane, &Figures{Unaccepted: map[string]string{}}); err != nil {
				return l, fmt.Errorf("create load: %w", err)
			}
		}
	}
	err = l.AwaitSync(ctx, acceptance)
	return l, err
}

// allFamilies returns all kinds of work, each with the pause after a change.
func (l *Load) allFamilies() []family {
	of := func(title string, pause time.Duration, lanes []string) base {
		return base{cluster: l.cluster, namespace: l.Namespace, title: title, pause: pause, lanes: lanes}
	}
	suffix := l.Namespace[strings.LastIndexByte(l.Namespace, '-')+1:]
	return []family{
		&manifests{base: of("ManagedResource", 100*time.Millisecond, manifestLanes()), load: l},
		&projects{of("Project", time.Second, numbered("l"+suffix, 3))}, // names may have at most ten characters
		&tokens{of("token", 500*time.Millisecond, numbered("token-", 6))},
		&services{of("Service", 300*time.Millisecond, numbered("service-", serviceCount))},
		&nodes{of("Node", time.Second, numbered("load-"+suffix+"-", 2))},
		&requests{base: of("CertificateSigningRequest", 1500*time.Millisecond, []string{"kubelet"})},
	}
}

func numbered(prefix string, count int) []string {
	names := make([]string, 0, count)
	for i := range count {
		names = append(names, prefix+strconv.Itoa(i))
	}
	return names
}

// base contains the fields that all families have.
type base struct {
	cluster   *cluster.Cluster
	namespace string
	// title is the first word of the names of the values.
	title string
	// pause is the time to wait before each change.
	pause time.Duration
	// lanes are the names of the values of the family.
	lanes []string
}

func (b base) common() base { return b }

// revisions returns the revision of each lane. -1 means that the value was never wanted, or that several objects belong to the lane.
func revisions[T any](objects []T, of func(T) (lane, revision string)) map[string]int {
	found := map[string]int{}
	for _, object := range objects {
		lane, text := of(object)
		value, err := strconv.Atoi(text)
		if _, twice := found[lane]; twice || err != nil {
			value = -1
		}
		found[lane] = value
	}
	return found
}

// createEach creates an object for each lane.
func (b base) createEach(ctx context.Context, object func(lane string) client.Object) error {
	for _, lane := range b.lanes {
		if err := client.IgnoreAlreadyExists(b.cluster.Client.Create(ctx, object(lane))); err != nil {
			return err
		}
	}
	return nil
}

// patch changes fields of an object by a merge patch.
func (b base) patch(ctx context.Context, object client.Object, content map[string]any) error {
	patch, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return b.cluster.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch))
}

// insist calls do until it succeeds, or until the limit. The error contains the last error of do.
func insist(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	return local.AwaitEvery(ctx, retryPause, limit, "cluster", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, attempt)
		defer cancel()
		return do(ctx)
	})
}

// advance makes one change, and retries it until it is accepted.
func (l *Load) advance(ctx context.Context, f family, lane string, figures *Figures) error {
	revision := l.want(f, lane)
	tries := 0
	err := insist(ctx, time.Hour, func(ctx context.Context) error {
		tries++
		return f.change(ctx, lane, revision)
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	figures.Refusals += tries - 1
	if err != nil {
		figures.Unaccepted[f.common().title+" "+lane] = fmt.Sprintf("revision %d was not accepted: %v", revision, err)
		return fmt.Errorf("change %s %s to revision %d: %w", f.common().title, lane, revision, err)
	}
	figures.Changes++
	return nil
}

// want records the next revision of a lane. This is done before the request is sent, because the request may succeed although the response
// is lost.
func (l *Load) want(f family, lane string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := f.common().title + " " + lane
	l.wanted[name] = append(l.wanted[name], l.clock.Now())
	return len(l.wanted[name])
}

// deletes records that the load itself deletes an object, to test that it is created again.
func (l *Load) deletes(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deleted.Insert(uid)
}

// Start starts to change values, one after the other in each family, and to send Pods to the webhooks. Errors of the webhook requests for
// which excused returns true do not count; nil excuses none. The function stop ends all this. It returns when the API server has accepted
// every started change, or after two minutes; it may be called again.
func (l *Load) Start(ctx context.Context, excused func(error) bool) (stop func() Figures) {
	ctx, cancel := context.WithCancel(ctx)
	ending := make(chan struct{})
	figures := Figures{Unaccepted: map[string]string{}}
	var workers sync.WaitGroup
	for _, f := range l.families {
		workers.Go(func() { l.work(ctx, ending, f, &figures) })
	}
	// This goroutine alone writes the counts of Pods, so it needs no lock.
	workers.Go(func() { l.ask(ctx, ending, excused, &figures) })
	return sync.OnceValue(func() Figures {
		close(ending)
		limit := time.AfterFunc(acceptance, cancel)
		workers.Wait()
		limit.Stop()
		cancel()
		return figures
	})
}

// work makes changes until ending is closed, or until a change is never accepted; figures then contains that change.
func (l *Load) work(ctx context.Context, ending <-chan struct{}, f family, figures *Figures) {
	lanes := f.common().lanes
	for i := 0; ; i++ {
		select {
		case <-ending:
			return
		case <-time.After(f.common().pause):
		}
		if err := l.advance(ctx, f, lanes[i%len(lanes)], figures); err != nil {
			return
		}
	}
}

// lagging returns a description of each value that has not arrived, by its name, and a text for each other object that is not in the
// expected state.
func (l *Load) lagging(ctx context.Context) (lagging map[string]string, unsettled []string, err error) {
	lagging = map[string]string{}
	for _, f := range l.families {
		arrived, more, err := f.results(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("list results of %s: %w", f.common().title, err)
		}
		unsettled = append(unsettled, more...)
		for _, lane := range f.common().lanes {
			name := f.common().title + " " + lane
			l.mu.Lock()
			wanted := len(l.wanted[name])
			l.mu.Unlock()
			if arrived[lane] != wanted {
				lagging[name] = fmt.Sprintf("has revision %d instead of %d", arrived[lane], wanted)
			}
		}
	}
	return lagging, unsettled, nil
}

// InSync returns nil if every value has arrived, every condition is healthy, the Deployments of all binaries have all replicas, and the
// webhooks answer. Otherwise it returns an error that names what is missing.
func (l *Load) InSync(ctx context.Context) error {
	lagging, unsettled, err := l.lagging(ctx)
	if err != nil {
		return err
	}
	unavailable, err := l.unavailable(ctx)
	if err != nil {
		return err
	}
	if missing := slices.Concat(sentences(lagging), unsettled, unavailable); len(missing) > 0 {
		return errors.New("not in sync: " + strings.Join(missing, "; "))
	}
	return l.show(ctx)
}

// AwaitSync waits until InSync returns nil. The load must not be running.
func (l *Load) AwaitSync(ctx context.Context, limit time.Duration) error {
	return insist(ctx, limit, l.InSync)
}

// Close deletes all objects of the load. Controllers delete the objects of ManagedResources and Projects before the namespace is deleted.
func (l *Load) Close(ctx context.Context) error {
	return errors.Join(
		l.removeAll(ctx, watched()["managedresources"]), l.removeAll(ctx, watched()["projects"]), l.removeAll(ctx, watched()["nodes"]),
		l.removeAll(ctx, certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest")), l.remove(ctx),
	)
}

// removeAll deletes the objects of a kind that have the marker of this load, and waits until they are gone. The namespace matters only for
// namespaced kinds.
func (l *Load) removeAll(ctx context.Context, kind schema.GroupVersionKind) error {
	object, left := &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadataList{}
	namespace, marked := client.InNamespace(l.Namespace), client.MatchingLabels{marker: l.Namespace}
	object.SetGroupVersionKind(kind)
	left.SetGroupVersionKind(kind)
	return insist(ctx, acceptance, func(ctx context.Context) error {
		if err := l.cluster.Client.DeleteAllOf(ctx, object, namespace, marked); err != nil {
			return fmt.Errorf("delete objects of kind %s: %w", kind.Kind, err)
		}
		err := l.cluster.Client.List(ctx, left, namespace, marked)
		if err == nil && len(left.Items) > 0 {
			return fmt.Errorf("%d objects of kind %s are still there", len(left.Items), kind.Kind)
		}
		return err
	})
}
