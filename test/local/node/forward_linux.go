package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
)

// Forward listens at 127.0.0.1:Port and forwards connections to the same address in the network namespace, until the context ends.
func Forward(ctx context.Context) error {
	return ForwardTo(ctx, Port, func(context.Context) (string, error) { return loopback(Port), nil })
}

// ForwardTo listens at a port of 127.0.0.1 and forwards each connection to the address in the network namespace that the function returns,
// until the context ends.
func ForwardTo(ctx context.Context, port int, address func(context.Context) (string, error)) error {
	at := loopback(port)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", at)
	if err != nil {
		return fmt.Errorf("listen at %s: %w", at, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		from, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept: %w", err)
		}
		go pass(ctx, from, address)
	}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// pass copies data in both directions, and closes both connections when one of them ends.
func pass(ctx context.Context, from net.Conn, address func(context.Context) (string, error)) {
	defer func() { _ = from.Close() }()
	at, err := address(ctx)
	var to net.Conn
	if err == nil {
		to, err = dial(ctx, at)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "error:", err) // the caller only sees a closed connection
		return
	}
	defer func() { _ = to.Close() }()
	done := make(chan struct{}, 2)
	for _, ends := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(ends[0], ends[1])
			done <- struct{}{}
		}()
	}
	<-done
}
