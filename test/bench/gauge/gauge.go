// Package gauge holds what the benchmarks of single binaries measure and report with. It knows no binary.
package gauge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// look is the pause between two looks at something that is not ready yet.
const look = 50 * time.Millisecond

// Pause waits for a while, or until the context ends.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Await waits, as long as patience lasts, until something is done. It gives up with the first error.
func Await(ctx context.Context, patience time.Duration, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		is, err := done()
		if err != nil || is {
			return err
		}
		if err := Pause(ctx, look); err != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
	}
}

// FreePorts returns ports of loopback that nobody uses.
func FreePorts(n int) ([]int, error) {
	var ports []int
	var listeners []net.Listener // all open until the last is, so that no port is found twice
	defer func() {
		for _, each := range listeners {
			_ = each.Close()
		}
	}()
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, listener)
		address, ok := listener.Addr().(*net.TCPAddr)
		if !ok {
			return nil, errors.New("a TCP listener without a TCP address")
		}
		ports = append(ports, address.Port)
	}
	return ports, nil
}

// Report prints figures, a line each.
type Report struct {
	// Decimals is how many there are of each figure.
	Decimals int
}

// Inform prints a figure that has no target.
func (r Report) Inform(what string, value float64) {
	fmt.Printf("%-75s %8.*f\n", what, r.Decimals, value)
}

// Show prints a figure that may be as large as its target, and tells whether it is met.
func (r Report) Show(what string, value, target float64) bool {
	verdict := "met"
	if value > target {
		verdict = "NOT MET"
	}
	fmt.Printf("%-75s %8.*f   target ≤ %g: %s\n", what, r.Decimals, value, target, verdict)
	return value <= target
}

// Status is the exit code of a benchmark: 1, and the reason on standard error, if it failed or must meet its targets and has not.
func Status(met, enforce bool, err error) int {
	if err == nil && enforce && !met {
		err = errors.New("a target is missed")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "\nerror: %v\n", err)
		return 1
	}
	return 0
}
