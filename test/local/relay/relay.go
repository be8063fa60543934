// Package relay forwards TCP connections.
package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Serve accepts connections until the context ends, and forwards each to the connection that connect returns. If connect fails, Serve logs
// the error and closes the accepted connection. After the end of the context, connections may continue for the time drain.
func Serve(
	ctx context.Context, listener net.Listener, drain time.Duration, connect func(ctx context.Context, client net.Conn) (net.Conn, error),
) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	connections, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var open sync.WaitGroup
	for {
		client, err := listener.Accept()
		if ctx.Err() != nil {
			time.AfterFunc(drain, end)
			open.Wait()
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		open.Go(func() {
			if err := handle(connections, client, connect); err != nil {
				log.Printf("connection of %s: %v", client.RemoteAddr(), err)
			}
		})
	}
}

// handle forwards a connection, and returns when both directions have ended.
func handle(ctx context.Context, client net.Conn, connect func(context.Context, net.Conn) (net.Conn, error)) error {
	defer func() { _ = client.Close() }()
	server, err := connect(ctx, client)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	stop := context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() })
	defer stop()
	var group errgroup.Group
	group.Go(func() error { return transfer(server, client) })
	group.Go(func() error { return transfer(client, server) })
	return group.Wait()
}

// transfer copies until the sender ends its direction, and then ends that direction too.
func transfer(to, from net.Conn) error {
	_, err := io.Copy(to, from)
	if half, ok := to.(*net.TCPConn); ok && err == nil {
		return half.CloseWrite()
	}
	return errors.Join(err, to.Close(), from.Close())
}
