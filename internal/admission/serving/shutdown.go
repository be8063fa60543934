package serving

import (
	"context"
	"net/http"
	"time"
)

// recordEnd records that the process is asked to end. Only the first call has an effect.
func (s *Server) recordEnd() {
	now := s.options.Clock.Now()
	if s.asked.CompareAndSwap(nil, &now) {
		s.options.Log.Info("Webhook server is no longer ready, and serves until the delay ends", "delay", s.options.ShutdownDelay.String())
	}
}

// endingFor returns the time since the process was asked to end, and whether it was asked.
func (s *Server) endingFor() (since time.Duration, endingFor bool) {
	asked := s.asked.Load()
	if asked == nil {
		return 0, false
	}
	return s.options.Clock.Since(*asked), true
}

// waitForDelay waits until the shutdown delay is over.
func (s *Server) waitForDelay() {
	since, _ := s.endingFor()
	if left := s.options.ShutdownDelay - since; left > 0 {
		timer := s.options.Clock.NewTimer(left)
		defer timer.Stop()
		<-timer.C()
	}
}

// endServing serves for the rest of the delay, and then waits for requests in flight, at most until the shutdown limit.
func (s *Server) endServing(ctx context.Context, server *http.Server) {
	s.recordEnd()
	s.waitForDelay()
	since, _ := s.endingFor()
	s.options.Log.Info("Webhook server takes no more requests")
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.ShutdownLimit-since)
	defer cancel()
	if err := server.Shutdown(limited); err != nil {
		s.options.Log.Error(err, "Webhook server closes connections that are still in use")
		_ = server.Close()
	}
}

// stopDelay keeps the manager from stopping its other runnables during the delay.
type stopDelay struct{ server *Server }

// NeedLeaderElection returns false, so that the delay applies in every replica.
func (stopDelay) NeedLeaderElection() bool { return false }

// Start waits until the context ends, makes the server not ready, and returns after the delay; at once if the server never listened.
func (d stopDelay) Start(ctx context.Context) error {
	<-ctx.Done()
	d.server.recordEnd()
	if d.server.Port() != 0 {
		d.server.waitForDelay()
	}
	return nil
}
