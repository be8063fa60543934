package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
)

func TestQueriesReachPrometheus(t *testing.T) {
	g := NewWithT(t)
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.String())
	}))
	defer prometheus.Close()
	c := configuration{Target: "query-frontend"}
	c.Server.Port, c.Frontend.Downstream = 9091, prometheus.URL
	handler, err := c.handler()
	g.Expect(err).NotTo(HaveOccurred())
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/api/v1/query?query=up", http.NoBody))
	g.Expect(answer.Body.String()).To(Equal("/api/v1/query?query=up"))

	c.Target = "all"
	_, err = c.handler()
	g.Expect(err).To(MatchError(ContainSubstring("target query-frontend")))
}
