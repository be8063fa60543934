package binary

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/espalier-dev/espalier/test/local"
)

// WithOwnServers is for the TestMain of packages whose binary serves a whole cluster, so that it would disturb the tests
// of others: it starts two API servers for this package alone, which New then uses, runs the tests and stops the servers.
// It returns the exit code. Use WithOwnServer where one server is enough: each costs seconds.
func WithOwnServers(m *testing.M) int { return withServers(m, local.StartTestServers) }

// WithOwnServer is like WithOwnServers for packages with one cluster: it starts only the API server with a controller manager,
// which is both source and target. Further arguments are added to the command line of the API server.
func WithOwnServer(m *testing.M, apiServerArgs ...string) int {
	return withServers(m, func(ctx context.Context, dir, assets string) ([]*local.ControlPlane, error) {
		plane, err := local.StartSource(ctx, dir, assets, apiServerArgs...)
		return []*local.ControlPlane{plane}, err
	})
}

func withServers(m *testing.M, start func(ctx context.Context, dir, assets string) ([]*local.ControlPlane, error)) (code int) {
	if os.Getenv(local.TestServersVariable) == "" { // the tests say themselves what they miss
		return m.Run()
	}
	fail := func(err error) int {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		return 1
	}
	ctx := context.Background()
	assets, err := local.Assets(ctx, os.Stderr)
	if err != nil {
		return fail(err)
	}
	dir, err := os.MkdirTemp("", "espalier-test-servers-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	planes, err := start(ctx, dir, assets)
	if err != nil {
		return fail(fmt.Errorf("start API servers for this package: %w", err))
	}
	defer func() {
		if err := local.StopAll(planes); err != nil {
			code = fail(err)
		}
	}()
	if err := os.Setenv(local.TestServersVariable, dir); err != nil {
		return fail(err)
	}
	return m.Run()
}
