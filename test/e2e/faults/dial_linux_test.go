//go:build e2e

package faults_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// dialInside connects to an address in the network namespace of the local node, in which etcd listens.
func dialInside(ctx context.Context, network, address string) (net.Conn, error) {
	type result struct {
		connection net.Conn
		err        error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		namespace, err := os.Open("/run/netns/espalier-node")
		if err != nil {
			done <- result{err: fmt.Errorf("find network namespace: %w", err)}
			return
		}
		defer func() { _ = namespace.Close() }()
		if err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- result{err: fmt.Errorf("enter network namespace: %w", err)}
			return
		}
		connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
		done <- result{connection, err}
	}()
	r := <-done
	return r.connection, r.err
}
