package node

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/espalier-dev/espalier/test/local/relay"
)

// Forward listens at 127.0.0.1:Port until the context ends. It forwards connections to the same address in the network namespace.
func Forward(ctx context.Context) error {
	return ForwardTo(ctx, Port, func(context.Context) (string, error) { return loopback(Port), nil })
}

// ForwardTo listens at a port of 127.0.0.1 until the context ends. It forwards each connection to an address in the network namespace,
// which the function returns.
func ForwardTo(ctx context.Context, port int, address func(context.Context) (string, error)) error {
	at := loopback(port)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", at)
	if err != nil {
		return fmt.Errorf("listen at %s: %w", at, err)
	}
	return relay.Serve(ctx, listener, 0, func(ctx context.Context, _ net.Conn) (net.Conn, error) {
		to, err := address(ctx)
		if err != nil {
			return nil, err
		}
		return Dial(ctx, "tcp4", to)
	})
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
