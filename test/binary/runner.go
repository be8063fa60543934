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
	// Setup is what it connects with. A log without sink is discarded.
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

// Start runs the binary.
func (r *Runner) Start() {
	r.Test.Helper()
	discardLibraryLog()
	g := NewWithT(r.Test)
	ctx, cancel := context.WithCancel(r.Test.Context())
	needs, err := r.Needs()
	g.Expect(err).NotTo(HaveOccurred())
	needs.SkipNameValidation = true
	setup := r.Setup()
	if setup.Log.GetSink() == nil {
		setup.Log = logr.Discard()
	}
	setup.Patience = max(setup.Patience, outdatedDiscovery)
	clusters, err := setup.Connect(ctx, needs)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.Add(ctx, clusters)).To(Succeed())
	done := make(chan error, 1)
	go func() { done <- clusters.Start(ctx) }()
	r.stop = func() {
		if r.Stopping != nil {
			r.Stopping()
		}
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			r.Test.Errorf("%s ended with: %v", setup.Program.Name, err)
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
