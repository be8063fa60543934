package general

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// lookupPeriod is the time between two look-ups: DNS reports no changes.
	lookupPeriod = 30 * time.Second
	// addressLifetime is how long an address stays known after the last answer with it. Some load balancers answer with a part of their
	// addresses, a different one each time.
	addressLifetime = 10 * time.Minute
	// httpsPort is the port of the API server if its address names none.
	httpsPort = 443
)

// ServerName knows the addresses of the API server if its clients connect to a host name. Some clusters put such a host name into the
// environment of Pods. ServerName is safe for concurrent use.
type ServerName struct {
	// Host is the name, Port the TCP port of the API server there.
	Host string
	Port int32
	// Resolve returns the addresses of a host name.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Clock   clock.WithTickerAndDelayedExecution

	mu   sync.Mutex
	seen map[netip.Addr]time.Time
}

// NewServerName returns nil if the address of an API server, as in the configuration of a client, has no host name.
func NewServerName(address string, c clock.WithTickerAndDelayedExecution) (*ServerName, error) {
	server, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("parse address of API server: %w", err)
	}
	host := server.Hostname()
	if _, err := netip.ParseAddr(host); err == nil || host == "" {
		return nil, nil
	}
	name := &ServerName{Host: host, Port: httpsPort, Clock: c, Resolve: func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}}
	if text := server.Port(); text != "" {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("parse port of API server: %w", err)
		}
		name.Port = int32(port)
	}
	return name, nil
}

// endpoints returns the known addresses. There are none before the first answer.
func (s *ServerName) endpoints() []Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Endpoint, 0, len(s.seen))
	for _, address := range slices.SortedFunc(maps.Keys(s.seen), netip.Addr.Compare) {
		all = append(all, Endpoint{Address: address, Ports: []int32{s.Port}})
	}
	return all
}

// follow looks the name up again and again until the context ends, and calls a function after each change.
func (s *ServerName) follow(ctx context.Context, changed func()) {
	ticker := s.Clock.NewTicker(lookupPeriod)
	defer ticker.Stop()
	for {
		switch isNew, err := s.lookUp(ctx); {
		case err != nil && ctx.Err() == nil:
			log.FromContext(ctx).Error(err, "Could not look up the API server; its last addresses stay", "host", s.Host)
		case isNew:
			changed()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// lookUp reports whether the addresses have changed. An answer without addresses is an error.
func (s *ServerName) lookUp(ctx context.Context) (changed bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, lookupPeriod)
	defer cancel()
	found, err := s.Resolve(bounded, s.Host)
	if err != nil {
		return false, fmt.Errorf("look up %s: %w", s.Host, err)
	}
	if len(found) == 0 {
		return false, fmt.Errorf("look up %s: no addresses", s.Host)
	}
	now := s.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[netip.Addr]time.Time{}
	}
	for _, each := range found {
		each = each.Unmap()
		_, known := s.seen[each]
		changed = changed || !known
		s.seen[each] = now
	}
	for address, last := range s.seen {
		if now.Sub(last) >= addressLifetime {
			delete(s.seen, address)
			changed = true
		}
	}
	return changed, nil
}
