package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"
)

var errServer = errors.New("the HTTP server has failed")

// server answers requests of the kubelet and the sidecar.
type server struct {
	ready *atomic.Bool
	// stop has the effect of a signal. The sidecar requests it after a change of the addresses of members.
	stop func()

	http     *http.Server
	listener net.Listener
	files    string
}

func (s *server) listen(ctx context.Context, from settings) (err error) {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !s.ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	routes.HandleFunc("POST /stop", func(http.ResponseWriter, *http.Request) { s.stop() })
	s.http = &http.Server{Handler: routes, ReadHeaderTimeout: 10 * time.Second}
	if from.clientTLS() {
		s.files = from.certificates
	}
	s.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+strconv.Itoa(from.port))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}

// serve serves until the context has ended, and returns when open requests are answered.
func (s *server) serve(ctx context.Context) error {
	closed := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		closed <- s.http.Shutdown(grace)
	})
	defer stop()
	var err error
	if s.files == "" {
		err = s.http.Serve(s.listener)
	} else {
		err = s.http.ServeTLS(s.listener, filepath.Join(s.files, "tls.crt"), filepath.Join(s.files, "tls.key"))
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%w: %w", errServer, err)
	}
	if err := <-closed; !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
