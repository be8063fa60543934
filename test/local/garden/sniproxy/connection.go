package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

const (
	// helloLimit and helloTimeout limit the size of a client's first message and the time until it is complete.
	helloLimit   = 16 << 10
	helloTimeout = 10 * time.Second
	dialTimeout  = 10 * time.Second
)

// connectTo returns a function that connects a client to the destination of the host name in its first message, and forwards this message.
func connectTo(destination func(context.Context, string) (string, error)) func(context.Context, net.Conn) (net.Conn, error) {
	return func(ctx context.Context, client net.Conn) (net.Conn, error) {
		if err := client.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
			return nil, err
		}
		host, hello, err := readHello(client)
		if err != nil {
			return nil, err
		}
		err = client.SetReadDeadline(time.Time{})
		if err != nil {
			return nil, err
		}
		to, err := destination(ctx, host)
		if err != nil {
			return nil, err
		}
		server, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", to)
		if err != nil {
			return nil, fmt.Errorf("connect to destination of %q: %w", host, err)
		}
		if _, err := server.Write(hello); err != nil {
			return nil, errors.Join(fmt.Errorf("pass first message: %w", err), server.Close())
		}
		return server, nil
	}
}

var errRead = errors.New("the first message is read")

// readHello returns the host name in the first message of a TLS client, in lower case, and all bytes that it has read.
func readHello(client io.Reader) (host string, hello []byte, err error) {
	var read bytes.Buffer
	known := false
	err = tls.Server(oneWay{Reader: io.TeeReader(io.LimitReader(client, helloLimit), &read)}, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(message *tls.ClientHelloInfo) (*tls.Config, error) {
			host, known = strings.TrimSuffix(strings.ToLower(message.ServerName), "."), true
			return nil, errRead
		},
	}).Handshake()
	switch {
	case !known:
		return "", nil, fmt.Errorf("read first message: %w", err)
	case host == "":
		return "", nil, errors.New("the first message has no host name")
	}
	return host, read.Bytes(), nil
}

// oneWay is a connection that cannot be written to, so that a handshake ends after the first message without a response.
type oneWay struct {
	net.Conn
	io.Reader
}

func (c oneWay) Read(p []byte) (int, error)       { return c.Reader.Read(p) }
func (c oneWay) Write(p []byte) (int, error)      { return len(p), nil }
func (c oneWay) Close() error                     { return nil }
func (c oneWay) SetDeadline(time.Time) error      { return nil }
func (c oneWay) SetReadDeadline(time.Time) error  { return nil }
func (c oneWay) SetWriteDeadline(time.Time) error { return nil }
