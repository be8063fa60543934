package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
)

func TestOnlyTheVersionIsReplaced(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			_ = json.NewEncoder(w).Encode(version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.2", Platform: "linux/amd64"})
			return
		}
		_, _ = io.WriteString(w, r.Header.Get("Authorization")+" "+r.URL.String())
	}))
	t.Cleanup(server.Close)
	handler, err := newHandler(&rest.Config{Host: server.URL, BearerToken: "token"}, "v1.36.0")
	g.Expect(err).NotTo(HaveOccurred())
	get := func(path string) string {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		g.Expect(recorder.Code).To(Equal(http.StatusOK))
		return recorder.Body.String()
	}
	g.Expect(get("/api/v1/pods?watch=1")).To(Equal("Bearer token /api/v1/pods?watch=1"))
	info := version.Info{}
	g.Expect(json.Unmarshal([]byte(get("/version")), &info)).To(Succeed())
	g.Expect(info).To(Equal(version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.0", Platform: "linux/amd64"}))
}
