package selfmanaged

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/internal/admission/certificates"
	"github.com/espalier-dev/espalier/internal/admission/serving"
)

// outsidePatience is how long webhooks are not registered because this process cannot reach itself in the way that API
// servers do. Network policies may forbid just that.
const outsidePatience = time.Minute

// reachable answers whether API servers will reach the server: it must answer at its own port, and, as far as this process
// can tell, by its Service or URL.
type reachable struct {
	server *serving.Server
	// serverName is the name in the certificate; outside is what API servers connect to.
	serverName, bindAddress, outside string
	clock                            clock.PassiveClock
	log                              logr.Logger

	mu sync.Mutex
	// since is when the server answered for the first time.
	since time.Time
}

// ask implements certificates.Options.Reachable.
func (r *reachable) ask(ctx context.Context, bundle []byte) error {
	port := r.server.Port()
	if port == 0 {
		return errors.New("the server has not been started yet")
	}
	host := r.bindAddress
	if host == "" {
		host = "localhost"
	}
	if err := certificates.Dial(net.JoinHostPort(host, strconv.Itoa(port)), r.serverName)(ctx, bundle); err != nil {
		return err
	}
	err := certificates.Dial(r.outside, r.serverName)(ctx, bundle)
	if err == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		r.since = r.clock.Now()
	}
	if waited := r.clock.Since(r.since); waited < outsidePatience {
		return err
	}
	r.log.Info("Registering webhooks although this process does not reach itself as API servers would", "address", r.outside, "reason",
		err.Error())
	return nil
}
