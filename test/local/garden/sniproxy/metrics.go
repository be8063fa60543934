package main

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// countedListener counts the accepted connections.
type countedListener struct {
	net.Listener
	accepted atomic.Int64
}

func (l *countedListener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return connection, err
}

// metricsServer serves the number of accepted connections at the path and with the name of Envoy.
func metricsServer(l *countedListener) *manager.Server {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /stats/prometheus", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		const name = "envoy_listener_downstream_cx_total"
		_, _ = fmt.Fprintf(w, "# TYPE %[1]s counter\n%[1]s{envoy_listener_address=%[2]q} %[3]d\n", name, l.Addr(), l.accepted.Load())
	})
	return &manager.Server{Server: &http.Server{Addr: metrics, Handler: routes, ReadHeaderTimeout: 10 * time.Second}}
}
