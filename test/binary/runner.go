package binary

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/process"
)

// Runner runs a binary within a test, as often as the test starts it. As far as possible in one process, nothing remains of the last run.
type Runner struct {
	// Test is the test at whose end the binary is stopped.
	Test *testing.T
	// Setup returns the settings of the process. A zero logger discards the log.
	Setup func() *process.Setup
	// Needs and Add are the functions of the binary's family, called at each start.
	Needs func() (process.Needs, error)
	Add   func(ctx context.Context, clusters *process.Clusters) error
	// Started is called when the binary runs, Stopping before it is stopped; both may be nil.
	Started, Stopping func()

	stop func()
}

// outdatedDiscovery is how long an API server may return an outdated list of the kinds of a group after an APIService or a
// CustomResourceDefinition changed. It reads the kinds of such a group again once a minute.
const outdatedDiscovery = 90 * time.Second

// discardLibraryLog sets the logger of controller-runtime, which otherwise prints a stack trace after 30 seconds without one.
var discardLibraryLog = sync.OnceFunc(func() { log.SetLogger(logr.Discard()) })

// Connect connects the binary to its clusters, and adds its controllers to the managers.
func (r *Runner) Connect(ctx context.Context) (*process.Clusters, error) {
	discardLibraryLog()
	needs, err := r.Needs()
	if err != nil {
		return nil, err
	}
	needs.SkipNameValidation = true
	setup := r.Setup()
	if setup.Log.GetSink() == nil {
		setup.Log = logr.Discard()
	}
	setup.Patience = max(setup.Patience, outdatedDiscovery)
	clusters, err := setup.Connect(ctx, needs)
	if err != nil {
		return nil, err
	}
	return clusters, r.Add(ctx, clusters)
}

// Start runs the binary.
func (r *Runner) Start() {
	r.Test.Helper()
	ctx, cancel := context.WithCancel(r.Test.Context())
	clusters, err := r.Connect(ctx)
	NewWithT(r.Test).Expect(err).NotTo(HaveOccurred())
	done := make(chan error, 1)
	go func() { done <- clusters.Start(ctx) }()
	r.stop = func() {
		if r.Stopping != nil {
			r.Stopping()
		}
		cancel()
		select {
		case err := <-done:
			if err != nil && !errors.Is(err, context.Canceled) {
				r.Test.Errorf("%s ended with: %v", r.Setup().Program.Name, err)
			}
		case <-time.After(2 * process.Grace): // for example a manager that is cut off before its caches have synced
			r.Test.Errorf("%s has not stopped after %s", r.Setup().Program.Name, 2*process.Grace)
		}
	}
	if r.Started != nil {
		r.Started()
	}
}

// Stop stops the binary; a second call does nothing.
func (r *Runner) Stop() {
	if r.stop != nil {
		r.stop()
		r.stop = nil
	}
}

// Restart stops the binary, calls the function meanwhile, and starts the binary again.
func (r *Runner) Restart(meanwhile func()) {
	r.Stop()
	if meanwhile != nil {
		meanwhile()
	}
	r.Start()
}
