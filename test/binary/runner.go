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

// Runner runs a binary within a test, again and again. Nothing is remembered of the last run, as far as that is possible in one
// process.
type Runner struct {
	// Test is the test at whose end the binary ends, at the latest.
	Test *testing.T
	// Setup returns the settings of the connection. A log without sink is discarded.
	Setup func() *process.Setup
	// Needs and Add are the binary's own, called at each start.
	Needs func() (process.Needs, error)
	Add   func(ctx context.Context, clusters *process.Clusters) error
	// Started is called when it runs, Stopping before it ends; nil for nothing to do.
	Started, Stopping func()

	stop func()
}

// outdatedDiscovery is how long an API server may answer with an outdated list of a group's kinds after the group's
// APIService or CustomResourceDefinitions changed: it asks again once a minute.
const outdatedDiscovery = 90 * time.Second

// discardLibraryLog sets the logger of controller-runtime itself, which otherwise prints a stack after 30 seconds.
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

// Stop ends the binary; a second call does nothing.
func (r *Runner) Stop() {
	if r.stop != nil {
		r.stop()
		r.stop = nil
	}
}

// Restart ends the binary, lets something happen meanwhile, and starts it again.
func (r *Runner) Restart(meanwhile func()) {
	r.Stop()
	if meanwhile != nil {
		meanwhile()
	}
	r.Start()
}
