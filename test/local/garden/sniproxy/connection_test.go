package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/local/relay"
)

// proxy starts the proxy with one destination, and returns its address.
func proxy(t *testing.T, destination func(context.Context, string) (string, error)) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- relay.Serve(ctx, listener, drain, connectTo(destination)) }()
	t.Cleanup(func() {
		stop()
		NewWithT(t).Eventually(done).WithTimeout(10 * time.Second).Should(Receive(BeNil()))
	})
	return listener.Addr().String()
}

func TestConnectionIsPassedThrough(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.ServerName)
	}))
	defer server.Close()
	address := proxy(t, func(_ context.Context, host string) (string, error) {
		if host != "example.com" {
			return "", errors.New("unknown")
		}
		return server.Listener.Addr().String(), nil
	})
	get := func(host string) (string, error) {
		client := server.Client()
		original, ok := client.Transport.(*http.Transport)
		NewWithT(t).Expect(ok).To(BeTrue())
		transport := original.Clone()
		transport.TLSClientConfig.ServerName, transport.DisableKeepAlives = host, true
		client.Transport = transport
		response, err := client.Get("https://" + address)
		if err != nil {
			return "", err
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}
	g.Expect(get("example.com")).To(Equal("example.com"))
	_, err := get("other.example.com")
	g.Expect(err).To(MatchError(io.EOF))
}

func TestConnectionsThatAreNoTLSAreClosedWithoutAnAnswer(t *testing.T) {
	g := NewWithT(t)
	address := proxy(t, func(context.Context, string) (string, error) { return "", errors.New("unknown") })
	connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = connection.Close() }()
	_, err = io.WriteString(connection, "GET / HTTP/1.1\r\n\r\n")
	g.Expect(err).NotTo(HaveOccurred())
	answer, _ := io.ReadAll(connection) // the connection is closed or reset
	g.Expect(answer).To(BeEmpty())
}

func TestHostNameOfTheFirstMessage(t *testing.T) {
	g := NewWithT(t)
	client, server := net.Pipe()
	defer func() { _ = server.Close() }()
	go func() { _ = tls.Client(client, &tls.Config{ServerName: "API.Example.com"}).Handshake() }()
	host, hello, err := readHello(server)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(host).To(Equal("api.example.com"))
	g.Expect(hello).NotTo(BeEmpty())
	g.Expect(client.Close()).To(Succeed())
}
