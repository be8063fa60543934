package serving

import (
	"context"
	"net/http"
	"time"
)

// noteEnd records that the process was asked to end. The first call counts.
func (s *Server) noteEnd() {
	now := s.options.Clock.Now()
	if s.asked.CompareAndSwap(nil, &now) {
		s.options.Log.Info("Webhook server is no longer ready, and serves on for a while", "delay", s.options.ShutdownDelay.String())
	}
}

// ending returns for how long the process is asked to end already.
func (s *Server) ending() (since time.Duration, ending bool) {
	asked := s.asked.Load()
	if asked == nil {
		return 0, false
	}
	return s.options.Clock.Since(*asked), true
}

// delay waits until the shutdown delay is over.
func (s *Server) delay() {
	since, _ := s.ending()
	if left := s.options.ShutdownDelay - since; left > 0 {
		timer := s.options.Clock.NewTimer(left)
		defer timer.Stop()
		<-timer.C()
	}
}

// end serves for the rest of the delay, and then waits for requests in flight.
func (s *Server) end(ctx context.Context, server *http.Server) {
	s.noteEnd()
	s.delay()
	since, _ := s.ending()
	s.options.Log.Info("Webhook server takes no more requests")
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.ShutdownLimit-since)
	defer cancel()
	if err := server.Shutdown(limited); err != nil {
		s.options.Log.Error(err, "Webhook server closes connections that are still in use")
		_ = server.Close()
	}
}

// stopDelay keeps a manager from stopping anything else during the delay.
type stopDelay struct{ server *Server }

// NeedLeaderElection makes every replica keep its manager from stopping.
func (stopDelay) NeedLeaderElection() bool { return false }

// Start waits for the end, makes the server not ready, and returns after the delay; at once if nothing was served.
func (d stopDelay) Start(ctx context.Context) error {
	<-ctx.Done()
	d.server.noteEnd()
	if d.server.Port() != 0 {
		d.server.delay()
	}
	return nil
}
