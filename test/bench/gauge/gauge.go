// Package gauge contains what the benchmarks of single binaries use to measure and report. It depends on no binary.
package gauge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// look is the pause between two checks of a state.
const look = 50 * time.Millisecond

// Pause waits for a duration, or until the context ends.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Await waits until done returns true, at most for patience. It stops at the first error.
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

// FreePorts returns unused ports of loopback.
func FreePorts(n int) ([]int, error) {
	var ports []int
	var listeners []net.Listener // all stay open until the last is, so that no port is returned twice
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

// Report prints figures, one per line.
type Report struct {
	// Decimals is the number of decimals of each figure.
	Decimals int
}

// Inform prints a figure that has no target.
func (r Report) Inform(what string, value float64) {
	fmt.Printf("%-75s %8.*f\n", what, r.Decimals, value)
}

// Show prints a figure and its target, and reports whether the figure is at most the target.
func (r Report) Show(what string, value, target float64) bool {
	verdict := "met"
	if value > target {
		verdict = "NOT MET"
	}
	fmt.Printf("%-75s %8.*f   target ≤ %g: %s\n", what, r.Decimals, value, target, verdict)
	return value <= target
}

// Status is the exit code of a benchmark: 1, with the reason on standard error, if it failed, or if it misses its targets with enforce.
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
