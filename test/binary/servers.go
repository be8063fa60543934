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
// It returns the exit code.
func WithOwnServers(m *testing.M) int {
	code, err := withOwnServers(m)
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		return 1
	}
	return code
}

func withOwnServers(m *testing.M) (code int, err error) {
	if os.Getenv(local.TestServersVariable) == "" { // the tests say themselves what they miss
		return m.Run(), nil
	}
	ctx := context.Background()
	assets, err := local.Assets(ctx, os.Stderr)
	if err != nil {
		return 0, err //nolint:wrapcheck // it says what to do
	}
	dir, err := os.MkdirTemp("", "espalier-test-servers-")
	if err != nil {
		return 0, err //nolint:wrapcheck // it names the folder
	}
	defer func() { _ = os.RemoveAll(dir) }()
	planes, err := local.StartTestServers(ctx, dir, assets)
	if err != nil {
		return 0, fmt.Errorf("start API servers for this package: %w", err)
	}
	defer func() { err = local.StopAll(planes) }()
	if err := os.Setenv(local.TestServersVariable, dir); err != nil {
		return 0, err //nolint:wrapcheck // it names the variable
	}
	return m.Run(), nil
}
