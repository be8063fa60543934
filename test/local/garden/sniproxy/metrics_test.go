package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
)

func TestConnectionsAreCounted(t *testing.T) {
	g := NewWithT(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	counted := &countedListener{Listener: listener}
	defer func() { _ = counted.Close() }()
	accepted := func() string {
		answer := httptest.NewRecorder()
		metricsServer(counted).Server.Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/stats/prometheus", http.NoBody))
		return answer.Body.String()
	}
	series := `envoy_listener_downstream_cx_total{envoy_listener_address="` + listener.Addr().String() + `"} `
	g.Expect(accepted()).To(HaveSuffix(series + "0\n"))
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = client.Close() }()
	server, err := counted.Accept()
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = server.Close() }()
	g.Expect(accepted()).To(HaveSuffix(series + "1\n"))
}
