package observe

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// RestoreCheck makes a reflector list again when its cluster was restored from a backup.
//
// The reflector of client-go resumes a watch at the last resourceVersion that it received. If the restored cluster is at an older version,
// the API server accepts that watch and sends nothing until the cluster has passed the requested version. So before the reflector resumes
// a watch, the check lists one object if the last watch ended before expectedEnd (for instance, because the API server stopped) or could
// not be opened. If that listing has an older version than the reflector, Watch returns an error, and the reflector lists all objects.
//
// The zero value is not usable; a RestoreCheck serves one reflector.
type RestoreCheck struct {
	Clock clock.PassiveClock

	mu sync.Mutex
	// expectedEnd is when the last watch ends by its timeout; zero if there was no watch.
	expectedEnd time.Time
	// interrupted is set when a watch ended early or could not be opened, until the next watch has been opened. It stays set while the API
	// server is unavailable, which may last beyond expectedEnd.
	interrupted bool
}

// Watch opens a watch. If the cluster is older than the resourceVersion at which the watch resumes, Watch returns the error that this
// version has expired.
func (c *RestoreCheck) Watch(
	ctx context.Context, options metav1.ListOptions, objects cache.ListerWatcherWithContext,
) (watch.Interface, error) {
	if err := c.checkVersion(ctx, options, objects); err != nil {
		return nil, err
	}
	// The API server measures the timeout of a watch from the arrival of the request, so the time of the answer would be too late.
	begin := c.Clock.Now()
	stream, err := objects.WatchWithContext(ctx, options)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted = err != nil
	if err == nil {
		c.expectedEnd = begin.Add(time.Duration(ptr.Deref(options.TimeoutSeconds, 0)) * time.Second)
	}
	return stream, err
}

// wasInterrupted reports whether the cluster may have been restored since the last watch.
func (c *RestoreCheck) wasInterrupted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted = c.interrupted || c.Clock.Now().Before(c.expectedEnd)
	return c.interrupted
}

func (c *RestoreCheck) checkVersion(ctx context.Context, options metav1.ListOptions, objects cache.ListerWithContext) error {
	if ptr.Deref(options.SendInitialEvents, false) || options.ResourceVersion == "" || options.ResourceVersion == "0" || !c.wasInterrupted() {
		return nil
	}
	page, err := objects.ListWithContext(ctx,
		metav1.ListOptions{Limit: 1, LabelSelector: options.LabelSelector, FieldSelector: options.FieldSelector})
	if err != nil {
		return err
	}
	now, err := meta.ListAccessor(page)
	if err != nil {
		return fmt.Errorf("check for a restored cluster: %w", err)
	}
	if !Older(now.GetResourceVersion(), options.ResourceVersion) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expectedEnd, c.interrupted = time.Time{}, false
	return apierrors.NewResourceExpired(fmt.Sprintf("resourceVersion %s is newer than the cluster, which was restored at %s",
		options.ResourceVersion, now.GetResourceVersion()))
}

// Older reports whether a resourceVersion is older than another one. It returns false for versions that cannot be compared.
func Older(resourceVersion, other string) bool {
	order, err := resourceversion.CompareResourceVersion(resourceVersion, other)
	return err == nil && order < 0
}

// NewInformer returns an informer that lists everything again after its cluster was restored from a backup.
func NewInformer(
	source cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers,
) cache.SharedIndexInformer {
	inner, check := cache.ToListerWatcherWithContext(source), &RestoreCheck{Clock: clock.RealClock{}}
	checked := &cache.ListWatch{
		ListWithContextFunc: inner.ListWithContext,
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return check.Watch(ctx, options, inner)
		},
	}
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(checked, source), example, resync, indexers)
}
