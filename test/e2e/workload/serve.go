package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// serve answers on :8080 until ctx ends: 200 "ok" for all paths, except
//
//	/readyz                503 while it is not ready; it is ready at the start
//	/readyz?ready=false    makes it not ready; true makes it ready again
func serve(ctx context.Context) error {
	server := &http.Server{Addr: ":8080", Handler: handler(), ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func handler() http.Handler {
	var unready atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		if wanted := r.URL.Query().Get("ready"); wanted != "" {
			unready.Store(wanted == "false")
			fmt.Fprintf(w, "ready: %t", !unready.Load())
			return
		}
		if unready.Load() {
			http.Error(w, "not ready, as told", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok")
	})
	return mux
}
