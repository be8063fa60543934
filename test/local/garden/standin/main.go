// Command standin replaces a program for which there is no image: it answers every HTTP request at its ports with 200, so that probes
// succeed, until it is stopped. It ignores the arguments from "--" on, which are for the replaced program.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, portsOf(os.Args[1:]))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func portsOf(args []string) []string {
	if end := slices.Index(args, "--"); end >= 0 {
		return args[:end]
	}
	return args
}

func serve(ctx context.Context, ports []string) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, port := range ports {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+port)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ReadHeaderTimeout: 10 * time.Second}
		context.AfterFunc(ctx, func() { _ = server.Close() })
		group.Go(func() error {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve: %w", err)
			}
			return nil
		})
	}
	<-ctx.Done()
	return group.Wait()
}
