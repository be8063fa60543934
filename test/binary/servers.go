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

type startServers func(ctx context.Context, dir, assets string) ([]*local.ControlPlane, error)

func withServers(m *testing.M, start startServers) int {
	code, err := runWithServers(m, start)
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		return 1
	}
	return code
}

func runWithServers(m *testing.M, start startServers) (code int, err error) {
	if os.Getenv(local.TestServersVariable) == "" { // the tests say themselves what they miss
		return m.Run(), nil
	}
	ctx := context.Background()
	assets, err := local.Assets(ctx, os.Stderr)
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "espalier-test-servers-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	planes, err := start(ctx, dir, assets)
	if err != nil {
		return 0, fmt.Errorf("start API servers for this package: %w", err)
	}
	defer func() { err = local.StopAll(planes) }()
	if err := os.Setenv(local.TestServersVariable, dir); err != nil {
		return 0, err
	}
	return m.Run(), nil
}
