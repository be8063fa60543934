package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/test/bench/gauge"
)

const (
	processorTime = "/debug/pprof/profile?seconds=20"
	memoryInUse   = "/debug/pprof/heap"
)

// profile writes a profile of the controller into the folder for profiles, if there is one.
func (b *bench) profile(ctx context.Context, c *controller, name, path string) error {
	if b.options.profiles == "" {
		return nil
	}
	content, err := c.page(ctx, path)
	if err != nil {
		return err
	}
	return b.write(name, content)
}

// profileServer writes a profile of the API server into the folder for profiles, if there is one.
func (b *bench) profileServer(ctx context.Context, g *garden, name string) error {
	if b.options.profiles == "" {
		return nil
	}
	cfg := g.plane.AdminConfig()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	content, err := get(ctx, client, cfg.Host+processorTime)
	if err != nil {
		return err
	}
	return b.write(name, content)
}

func (b *bench) write(name string, content []byte) error {
	return os.WriteFile(filepath.Join(b.options.profiles, name), content, 0o600)
}

// watchConvergence writes profiles of controller and API server, and reports the end on the channel.
func (b *bench) watchConvergence(ctx context.Context, c *controller, g *garden) <-chan error {
	written := make(chan error, 2)
	if b.options.profiles == "" {
		written <- nil
		written <- nil
		return written
	}
	go func() { written <- b.profileServer(ctx, g, "convergence-server.pprof") }()
	go func() {
		written <- errors.Join(gauge.Await(ctx, patience, "profiles to be served", func() (bool, error) {
			_, failure := c.page(ctx, "/metrics")
			return failure == nil, nil
		}), b.profile(ctx, c, "convergence.pprof", processorTime))
	}()
	return written
}
