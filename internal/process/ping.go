package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// AnswerPing answers /healthz/ping at the address of the health probes until stop is called. Call it in a process that may wait for longer
// than a minute before it creates a manager. Otherwise the kubelet would restart the process.
func (s *Setup) AnswerPing(ctx context.Context) (stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address(s.Config.Server.HealthProbes))
	if err != nil {
		return nil, explainPort(fmt.Errorf("answer probes: %w", err))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz/ping", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.Log.Error(err, "Stopped answering probes")
		}
	}()
	return func() {
		_ = server.Close()
		<-ended
	}, nil
}
