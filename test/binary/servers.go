package binary

import (
	"context"
	"fmt"
	"os"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/test/local"
)

// Servers returns the API servers of the test run. With -short it skips the test.
func Servers(tb testing.TB) local.Servers {
	tb.Helper()
	if testing.Short() {
		tb.Skip("needs an API server")
	}
	servers, err := local.ForTests()
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	return servers
}

// Serve runs a subcommand instead of the tests if the first argument of the process is the name of the subcommand; otherwise it runs the
// tests. It returns the exit code. A TestMain that ends with it makes the test binary the program of the child processes that the tests
// cause.
func Serve(command process.Subcommand, tests func() int) (code int) {
	if len(os.Args) < 2 || os.Args[1] != command.Name {
		return tests()
	}
	if err := command.Run(context.Background(), os.Args[2:], os.Stdout); err != nil {
		return 1
	}
	return 0
}

// WithOwnServers is for the TestMain of packages whose binary acts on a whole cluster, so that it would disturb tests of other packages. It
// starts two API servers only for this package, which New then uses, runs the tests, and stops the servers. It returns the exit code. Use
// WithOwnServer if one server is enough: each costs seconds.
func WithOwnServers(m *testing.M) int { return withServers(m, local.StartTestServers) }

// WithOwnServer is like WithOwnServers for packages with one cluster: it starts one API server, which is both source and target, and a
// kube-controller-manager. Further arguments are added to the command line of the API server.
func WithOwnServer(m *testing.M, apiServerArgs ...string) int {
	return withServers(m, func(ctx context.Context, dir, assets string) ([]*local.ControlPlane, error) {
		plane, err := local.StartSource(ctx, dir, assets, apiServerArgs...)
		return []*local.ControlPlane{plane}, err
	})
}

func withServers(m *testing.M, start func(ctx context.Context, dir, assets string) ([]*local.ControlPlane, error)) (code int) {
	if os.Getenv(local.TestServersVariable) == "" { // the tests then fail with a message that the servers are missing
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
