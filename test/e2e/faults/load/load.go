package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

const (
	// retryPause is between two attempts at a change, and between two looks at the cluster.
	retryPause = 250 * time.Millisecond
	// attempt is how long one request may take.
	attempt = 5 * time.Second
	// acceptance is how long a change may be refused after the end of a fault.
	acceptance = 2 * time.Minute
)

// family is one kind of work.
type family interface {
	// title is the first word of its lanes.
	title() string
	// pause is how long it rests after a change.
	pause() time.Duration
	// create makes what is worked on. It may be called again after an error.
	create(ctx context.Context) error
	// lanes are its values, each of which has a revision.
	lanes() []string
	// change makes the revision of a lane the wanted one. It is called again until it succeeds.
	change(ctx context.Context, lane string, revision int) error
	// arrived returns the revisions that are in effect; -1 is none that was ever wanted.
	arrived(ctx context.Context) (map[string]int, error)
	// unsettled tells what is not in order although all revisions have arrived.
	unsettled(ctx context.Context) ([]string, error)
	// remove ends all of it that is not in the namespace of the load.
	remove(ctx context.Context) error
}

// Load is steady work for all binaries, in a namespace of its own.
type Load struct {
	// Namespace holds everything but Projects, Nodes and CertificateSigningRequests.
	Namespace string

	cluster  *cluster.Cluster
	families []family
	pods     *pods
	remove   func(context.Context) error
	clock    clock.PassiveClock

	mu sync.Mutex // guards what follows
	// wanted are the times from which on each revision of a value was wanted, beginning with revision 1; the last one still is.
	wanted  map[string][]time.Time
	deleted sets.Set[types.UID]
}

// Figures say what one period of work has been.
type Figures struct {
	// Changes were accepted by the API server, all that were wanted; Refusals were answered by errors before.
	Changes, Refusals int
	// Unaccepted are the changes that never were, by the name of the value, with the last answer.
	Unaccepted map[string]string
	// Asked is how often a Pod was shown to the webhooks; Unanswered how often it was not accepted, whatever the reason;
	// Unchanged how often it was accepted without them, which must never happen.
	Asked, Unanswered, Unchanged int
}

// New creates what is worked on and waits until all of it is in order.
func New(ctx context.Context, c *cluster.Cluster) (*Load, error) {
	namespace, remove, err := c.Namespace(ctx, "load", map[string]string{
		"espalier.dev/network-policies": "enabled", resourcesv1alpha1.SetsAllowedLabel: resourcesv1alpha1.SetsAllowed,
	})
	if err != nil {
		return nil, fmt.Errorf("create load: %w", err)
	}
	l := &Load{Namespace: namespace, cluster: c, remove: remove, clock: clock.RealClock{}, wanted: map[string][]time.Time{}, deleted: sets.New[types.UID]()}
	l.pods = &pods{cluster: c, namespace: namespace}
	b := base{cluster: c, namespace: namespace, suffix: namespace[strings.LastIndexByte(namespace, '-')+1:]}
	l.families = []family{&manifests{base: b, load: l}, &projects{b}, &tokens{b}, &services{b}, &nodes{b}, &requests{base: b}}
	for _, f := range l.families {
		if err = insist(ctx, acceptance, f.create); err != nil {
			return l, fmt.Errorf("create load: %s: %w", f.title(), err)
		}
		for _, lane := range f.lanes() {
			if err = l.advance(ctx, f, lane, &Figures{Unaccepted: map[string]string{}}); err != nil {
				return l, fmt.Errorf("create load: %w", err)
			}
		}
	}
	err = l.AwaitSync(ctx, acceptance)
	return l, err
}

// base is what all families have.
type base struct {
	cluster           *cluster.Cluster
	namespace, suffix string
}

// insist calls until it succeeds. The error is the last one.
func insist(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	last := errors.New("it was not tried")
	err := wait.PollUntilContextTimeout(ctx, retryPause, limit, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, attempt)
		defer cancel()
		last = do(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}

// advance makes one change and insists on it.
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
		figures.Unaccepted[f.title()+" "+lane] = fmt.Sprintf("revision %d was not accepted: %v", revision, err)
		return fmt.Errorf("change %s %s to revision %d: %w", f.title(), lane, revision, err)
	}
	figures.Changes++
	return nil
}

// want remembers the next revision before it is sent: it may be carried out although the answer is lost.
func (l *Load) want(f family, lane string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := f.title() + " " + lane
	l.wanted[name] = append(l.wanted[name], l.clock.Now())
	return len(l.wanted[name])
}

// deletes remembers that the load itself deletes an object, as drift.
func (l *Load) deletes(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deleted.Insert(uid)
}

// Start begins to change values, one after the other in each family, and to show Pods to the webhooks. Of the errors that these
// get, those do not count that are excused; nil excuses none. stop ends all that; it returns when the API server has accepted
// every change that was begun, or two minutes later, and may be called again.
func (l *Load) Start(ctx context.Context, excused func(error) bool) (stop func() Figures) {
	ctx, cancel := context.WithCancel(ctx)
	ending := make(chan struct{})
	figures := Figures{Unaccepted: map[string]string{}}
	var workers sync.WaitGroup
	for _, f := range l.families {
		workers.Go(func() { l.work(ctx, ending, f, &figures) })
	}
	var asked Figures
	workers.Go(func() { asked = l.pods.ask(ctx, ending, excused) })
	return sync.OnceValue(func() Figures {
		close(ending)
		limit := time.AfterFunc(acceptance, cancel)
		workers.Wait()
		limit.Stop()
		cancel()
		figures.Asked, figures.Unanswered, figures.Unchanged = asked.Asked, asked.Unanswered, asked.Unchanged
		return figures
	})
}

// work goes on until it shall end, or until a change was never accepted, which the figures tell.
func (l *Load) work(ctx context.Context, ending <-chan struct{}, f family, figures *Figures) {
	lanes := f.lanes()
	for i := 0; ; i++ {
		select {
		case <-ending:
			return
		case <-time.After(f.pause()):
		}
		if err := l.advance(ctx, f, lanes[i%len(lanes)], figures); err != nil {
			return
		}
	}
}

// lagging returns the values that have not arrived, by their names, and how that shows.
func (l *Load) lagging(ctx context.Context) (map[string]string, error) {
	lagging := map[string]string{}
	for _, f := range l.families {
		arrived, err := f.arrived(ctx)
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", f.title(), err)
		}
		for _, lane := range f.lanes() {
			name := f.title() + " " + lane
			l.mu.Lock()
			wanted := len(l.wanted[name])
			l.mu.Unlock()
			if arrived[lane] != wanted {
				lagging[name] = fmt.Sprintf("has revision %d instead of %d", arrived[lane], wanted)
			}
		}
	}
	return lagging, nil
}

// InSync returns nil if every value has arrived, every condition says that all is well, every Deployment of ours has all its
// replicas, and webhooks answer; else what is missing.
func (l *Load) InSync(ctx context.Context) error {
	lagging, err := l.lagging(ctx)
	if err != nil {
		return err
	}
	missing := sentences(lagging)
	for _, f := range l.families {
		var more []string
		if more, err = f.unsettled(ctx); err != nil {
			return fmt.Errorf("look at %s: %w", f.title(), err)
		}
		missing = append(missing, more...)
	}
	more, err := l.unavailable(ctx)
	if err != nil {
		return err
	}
	missing = append(missing, more...)
	if len(missing) > 0 {
		return errors.New("not in sync: " + strings.Join(missing, "; "))
	}
	return l.pods.show(ctx)
}

// AwaitSync waits for InSync. Nothing must be changed meanwhile.
func (l *Load) AwaitSync(ctx context.Context, limit time.Duration) error {
	return insist(ctx, limit, l.InSync)
}

// Close removes everything.
func (l *Load) Close(ctx context.Context) error {
	var failures []error
	for _, f := range l.families {
		failures = append(failures, f.remove(ctx))
	}
	return errors.Join(append(failures, l.remove(ctx))...)
}
