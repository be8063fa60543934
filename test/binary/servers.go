package binary

import (
	"context"
	"fmt"
	"os"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/local"
)

// Servers returns the API servers of the test run. It skips the test with -short.
func Servers(tb testing.TB) local.Servers {
	tb.Helper()
	if testing.Short() {
		tb.Skip("needs an API server")
	}
	servers, err := local.ForTests()
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	return servers
}

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
	if os.Getenv(local.TestServersVariable) == "" { // the tests fail with a message about the missing servers
		return m.Run()
	}
	err := local.WithServers(context.Background(), os.Stderr, start, func(dir, _ string, _ []*local.ControlPlane) error {
		if err := os.Setenv(local.TestServersVariable, dir); err != nil {
			return err
		}
		code = m.Run()
		return nil
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: run API servers for this package: %v\n", err)
		return 1
	}
	return code
}
