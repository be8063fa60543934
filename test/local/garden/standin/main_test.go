package main

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestProbesSucceed(t *testing.T) {
	g := NewWithT(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	_, port, err := net.SplitHostPort(listener.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(listener.Close()).To(Succeed())

	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, portsOf([]string{port, "--", "/program", "1"})) }()
	g.Eventually(func() (int, error) {
		response, err := http.Get("http://127.0.0.1:" + port + "/healthz")
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}).Should(Equal(http.StatusOK))
	stop()
	g.Eventually(done).WithTimeout(10 * time.Second).Should(Receive(BeNil()))
}
