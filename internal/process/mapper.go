package process

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/utils/clock"
)

// failedGroupAge is how old the last discovery may be before the Mapper discovers a group again whose server did not answer.
const failedGroupAge = 5 * time.Second

// discoveryTimeout is the time limit for one discovery.
const discoveryTimeout = 30 * time.Second

// Mapper maps kinds to resources by the discovery of an API server. It discovers the kinds when it is first used. When it does not find a
// kind or resource, it discovers the kinds again if the last discovery is older than a given age or began before a Reset. For a group
// whose server did not answer, the age is at most failedGroupAge. Refresh always causes a discovery. In all other cases, the Mapper sends
// no request. So the answer "no match" may be outdated by the given age, and a known kind may no longer be served: see Refresh.
//
// If the server of an aggregated group does not answer, the Mapper returns an error and never "no match", so that objects of the group do
// not count as gone. The Mapper is safe for concurrent use; callers share one discovery.
type Mapper struct {
	client discovery.DiscoveryInterfaceWithContext
	clock  clock.PassiveClock
	maxAge time.Duration

	// flights contains the discovery that callers are waiting for; its key is the number of Resets before it.
	flights singleflight.Group

	// mu is never held while a request is sent, so that the Mapper answers from the last discovery while the next one is under way.
	mu     sync.Mutex
	known  *discovered // Guarded by mu; the value behind the pointer never changes. Nil: ask the API server.
	resets int         // Guarded by mu; the number of calls of Reset.
}

var _ meta.RESTMapper = &Mapper{}

// discovered is the result of one discovery: the kinds that the API server served at that time.
type discovered struct {
	mapper meta.RESTMapper
	kinds  map[schema.GroupVersionKind]bool
	at     time.Time
	// resets is the number of Resets before the discovery: after another Reset its result is outdated.
	resets int
	// failed are the groups whose server did not answer, with the error.
	failed map[string]error
}

// NewMapper returns a mapper for the API server of cfg. It sends no request yet. For maxAge after a discovery, a kind that the discovery
// did not find counts as not served.
func NewMapper(cfg *rest.Config, httpClient *http.Client, passive clock.PassiveClock, maxAge time.Duration) (*Mapper, error) {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("create discovery client: %w", err)
	}
	return &Mapper{client: client, clock: passive, maxAge: maxAge}, nil
}

// Reset marks the last discovery as outdated: the next search for an unknown kind asks the API server again, even if the last discovery is
// recent. The Mapper still answers for known kinds without a request. Call it after a change that may have added a kind.
func (m *Mapper) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resets++
}

// Refresh waits for a discovery that begins after the call. Call it when the API server does not serve a kind that the mapper knows. If the
// discovery fails, the mapper answers as before.
func (m *Mapper) Refresh() error {
	m.Reset()
	known, _ := m.current()
	_, err := m.discover(known, "")
	return err
}

// Names reports whether the API server named a kind in the last discovery. It also returns true if the server of the group did not answer
// in that discovery. Use Names to check the answers of the other methods, because they also return a resource for some kinds that do not
// exist: for "List", for the name of each kind with "List" appended, and for the name of each kind in small letters. controller-runtime
// needs the kinds with "List" for its lists.
func (m *Mapper) Names(kind schema.GroupVersionKind) bool {
	known, _ := m.current()
	return known != nil && (known.kinds[kind] || known.failed[kind.Group] != nil)
}

// KindFor implements meta.RESTMapper.
func (m *Mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return find(m, resource.Group, func(mapper meta.RESTMapper) (schema.GroupVersionKind, error) { return mapper.KindFor(resource) })
}

// KindsFor implements meta.RESTMapper.
func (m *Mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return find(m, resource.Group, func(mapper meta.RESTMapper) ([]schema.GroupVersionKind, error) { return mapper.KindsFor(resource) })
}

// ResourceFor implements meta.RESTMapper.
func (m *Mapper) ResourceFor(input schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return find(m, input.Group, func(mapper meta.RESTMapper) (schema.GroupVersionResource, error) { return mapper.ResourceFor(input) })
}

// ResourcesFor implements meta.RESTMapper.
func (m *Mapper) ResourcesFor(input schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return find(m, input.Group, func(mapper meta.RESTMapper) ([]schema.GroupVersionResource, error) { return mapper.ResourcesFor(input) })
}

// RESTMapping implements meta.RESTMapper.
func (m *Mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return find(m, gk.Group, func(mapper meta.RESTMapper) (*meta.RESTMapping, error) { return mapper.RESTMapping(gk, versions...) })
}

// RESTMappings implements meta.RESTMapper.
func (m *Mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return find(m, gk.Group, func(mapper meta.RESTMapper) ([]*meta.RESTMapping, error) { return mapper.RESTMappings(gk, versions...) })
}

// ResourceSingularizer implements meta.RESTMapper.
func (m *Mapper) ResourceSingularizer(resource string) (string, error) {
	return find(m, "", func(mapper meta.RESTMapper) (string, error) { return mapper.ResourceSingularizer(resource) })
}

// find calls look with the last discovery. If look finds nothing, find calls it once more with a new discovery.
func find[T any](m *Mapper, group string, look func(meta.RESTMapper) (T, error)) (T, error) {
	var none T
	known, err := m.discover(nil, group)
	if err != nil {
		return none, err
	}
	result, err := look(known.mapper)
	if !meta.IsNoMatchError(err) {
		return result, err
	}
	known, discoveryErr := m.discover(known, group)
	if discoveryErr != nil {
		return none, discoveryErr
	}
	result, err = look(known.mapper)
	if failure := known.failed[group]; meta.IsNoMatchError(err) && failure != nil {
		return none, failure
	}
	return result, err
}

// discover returns the last discovery, unless the caller needs a new one. It asks the API server if there was no discovery before. The
// argument notEnough is the discovery in which the caller did not find a kind; nil if there is none. If it is not nil, discover also asks
// the API server in two cases: after a Reset that followed the last discovery, and if notEnough is the last discovery and is too old.
// Callers that need the new discovery at the same time share it.
func (m *Mapper) discover(notEnough *discovered, group string) (*discovered, error) {
	known, resets := m.current()
	if known != nil && (notEnough == nil || known.resets == resets && (known != notEnough || !m.tooOld(known, group))) {
		return known, nil
	}
	fresh, err, _ := m.flights.Do(strconv.Itoa(resets), func() (any, error) {
		if now, _ := m.current(); now != nil && now != known && now.resets >= resets {
			return now, nil // it was stored after the check above
		}
		fresh, err := m.ask(resets)
		if err != nil {
			return nil, err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.known == nil || m.known.resets <= resets {
			m.known = fresh
		}
		return fresh, nil
	})
	if err != nil {
		return nil, err
	}
	return fresh.(*discovered), nil //nolint:errcheck // the function above returns nothing else
}

func (m *Mapper) current() (known *discovered, resets int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known, m.resets
}

func (m *Mapper) tooOld(known *discovered, group string) bool {
	maxAge := m.maxAge
	if known.failed[group] != nil {
		maxAge = min(maxAge, failedGroupAge)
	}
	return m.clock.Since(known.at) >= maxAge
}

// ask reads the list of all resources that the API server serves; with aggregated discovery these are two requests. The interface of
// mappers has no context, so ask itself sets the time limit for a server that never answers.
func (m *Mapper) ask(resets int) (*discovered, error) {
	at := m.clock.Now()
	ctx, cancel := context.WithTimeout(context.Background(), discoveryTimeout)
	defer cancel()
	partial := &partialDiscovery{DiscoveryInterfaceWithContext: m.client, failed: map[string]error{}}
	resources, err := restmapper.GetAPIGroupResourcesWithContext(ctx, partial)
	if err != nil {
		return nil, fmt.Errorf("discover the kinds of the API server: %w", err)
	}
	fresh := &discovered{
		mapper: restmapper.NewDiscoveryRESTMapper(resources), kinds: map[schema.GroupVersionKind]bool{}, at: at, resets: resets,
		failed: partial.failed,
	}
	for _, group := range resources {
		for version, all := range group.VersionedResources {
			for i := range all {
				fresh.kinds[schema.GroupVersionKind{Group: group.Group.Name, Version: version, Kind: all[i].Kind}] = true
			}
		}
	}
	return fresh, nil
}

// partialDiscovery records the groups whose server did not answer, because restmapper leaves these groups out of its result. Unlike the
// discovery client, partialDiscovery does not repeat all requests if the server of one group did not answer.
type partialDiscovery struct {
	discovery.DiscoveryInterfaceWithContext
	failed map[string]error
}

// ServerGroupsAndResourcesWithContext implements discovery.DiscoveryInterfaceWithContext.
func (p *partialDiscovery) ServerGroupsAndResourcesWithContext(ctx context.Context) (
	[]*metav1.APIGroup, []*metav1.APIResourceList, error,
) {
	groups, lists, err := discovery.ServerGroupsAndResourcesWithContext(ctx, p.DiscoveryInterfaceWithContext)
	partial, ok := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err)
	if !ok {
		return groups, lists, err
	}
	for gv, failure := range partial.Groups {
		p.failed[gv.Group] = fmt.Errorf("discover the kinds of %s: %w", gv, failure)
	}
	return groups, lists, nil
}
