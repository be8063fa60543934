package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// TestServersVariable is the environment variable that contains the folder of the two servers of a test run.
const TestServersVariable = "ESPALIER_TEST_SERVERS"

// Server is one of the API servers of a test run.
type Server struct {
	// Config is the administrator's configuration, without a client-side rate limit; copy it before you change it.
	Config *rest.Config
	// Kubeconfig is the kubeconfig of the administrator, which contains all data.
	Kubeconfig []byte

	layout layout
}

// Servers are the API servers of a test run. Source has a kube-controller-manager, so that garbage is collected and ServiceAccounts are
// created; Target has none. Tests for one cluster use Source. All tests of the run share the servers, so each test uses its own namespaces,
// and its own names for cluster-scoped objects. If a package has started only one server of its own, Target is the zero value.
type Servers struct{ Source, Target Server }

// ForTests returns the servers of this test run.
func ForTests() (Servers, error) {
	dir := os.Getenv(TestServersVariable)
	if dir == "" {
		return Servers{}, errors.New("this test needs an API server: run `make test`, or `go run ./test/local/testservers run -- go test " +
			"./some/package`")
	}
	source, err := openServer(filepath.Join(dir, "source"))
	if err != nil {
		return Servers{}, err
	}
	target, err := openServer(filepath.Join(dir, "target"))
	if errors.Is(err, os.ErrNotExist) {
		return Servers{Source: source}, nil
	}
	return Servers{Source: source, Target: target}, err
}

func openServer(dir string) (Server, error) {
	s := Server{layout: layout(dir)}
	var err error
	if s.Kubeconfig, err = os.ReadFile(s.layout.kubeconfig(admin)); err != nil {
		return Server{}, fmt.Errorf("read kubeconfig of API server: %w", err)
	}
	s.Config, err = restConfig(s.Kubeconfig)
	return s, err
}

// UserConfig returns the configuration of a client that the server authenticates as this user in these groups.
func (s Server) UserConfig(user string, groups ...string) (*rest.Config, error) {
	kubeconfig, err := s.UserKubeconfig(user, groups...)
	if err != nil {
		return nil, err
	}
	return restConfig(kubeconfig)
}

// UserKubeconfig returns a kubeconfig of a client that the server authenticates as this user in these groups.
func (s Server) UserKubeconfig(user string, groups ...string) ([]byte, error) {
	ports, err := readPorts(s.layout.ports())
	if err != nil {
		return nil, err
	}
	return userKubeconfig(s.layout.pki(""), ports.APIServer, user, groups, clock.RealClock{}.Now())
}

// rareCollection returns environment variables with which the heap of a part grows to five times its live objects before Go collects
// garbage, or to 2 GiB. With Go's default, which is twice, a quarter of the processor time of an API server in tests is garbage collection.
func rareCollection() []string { return []string{"GOGC=400", "GOMEMLIMIT=2GiB"} }

// withoutQueues returns the arguments that disable API Priority and Fairness. No test checks it, and it needs a tenth of the processor time
// of an API server.
func withoutQueues() []string {
	return []string{"--enable-priority-and-fairness=false", "--max-requests-inflight=0", "--max-mutating-requests-inflight=0"}
}

// forTests returns the options of a server for ForTests.
func forTests(dir, assets string, controllerManager bool, apiServerArgs ...string) Options {
	return Options{
		Dir: dir, Assets: assets, ControllerManager: controllerManager, APIServerArgs: append(withoutQueues(), apiServerArgs...),
		Env: rareCollection(),
	}
}

// StartSource starts the server that ForTests returns as Source, if TestServersVariable contains this folder. The caller must stop it;
// after an error there is nothing to stop. Further arguments are added to the command line of the API server.
func StartSource(ctx context.Context, dir, assets string, apiServerArgs ...string) (*ControlPlane, error) {
	return Start(ctx, forTests(filepath.Join(dir, "source"), assets, true, apiServerArgs...))
}

// StartTestServers starts the servers that ForTests returns, if TestServersVariable contains this folder. The caller must stop both; after
// an error there is nothing to stop.
func StartTestServers(ctx context.Context, dir, assets string) ([]*ControlPlane, error) {
	var source, target *ControlPlane
	var sourceErr, targetErr error
	var starts sync.WaitGroup
	starts.Go(func() { source, sourceErr = StartSource(ctx, dir, assets) })
	starts.Go(func() { target, targetErr = Start(ctx, forTests(filepath.Join(dir, "target"), assets, false)) })
	starts.Wait()
	planes := []*ControlPlane{source, target}
	if failure := errors.Join(sourceErr, targetErr); failure != nil {
		started := slices.DeleteFunc(planes, func(p *ControlPlane) bool { return p == nil })
		return nil, errors.Join(failure, StopAll(started))
	}
	return planes, nil
}

// WithServers starts API servers for ForTests in a temporary folder, calls use with them, and stops them.
func WithServers(
	ctx context.Context, log io.Writer, start func(ctx context.Context, dir, assets string) ([]*ControlPlane, error),
	use func(dir, assets string, planes []*ControlPlane) error,
) (err error) {
	assets, err := Assets(ctx, log)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "espalier-test-servers-")
	if err != nil {
		return fmt.Errorf("create state folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	planes, err := start(ctx, dir, assets)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, StopAll(planes)) }()
	return use(dir, assets, planes)
}

// StopAll stops all control planes, even if some of them fail to stop.
func StopAll(planes []*ControlPlane) error {
	failures := make([]error, 0, len(planes))
	for _, p := range planes {
		failures = append(failures, p.Stop())
	}
	return errors.Join(failures...)
}
