package faults_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/crash/harness"
	"github.com/espalier-dev/espalier/test/crash/scenarios"
	"github.com/espalier-dev/espalier/test/local"
)

// TestCrashRestartOfTheAPIServersChangesNothingAboutTheEnd kills both API servers while several controllers work.
func TestCrashRestartOfTheAPIServersChangesNothingAboutTheEnd(t *testing.T) {
	g := NewWithT(t)
	_, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	dir := t.TempDir()
	planes, err := local.StartTestServers(t.Context(), dir, os.Getenv(local.AssetsVariable))
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(local.StopAll(planes)).To(Succeed()) }) // after the cleanups of the suite, which need the servers
	t.Setenv(local.TestServersVariable, dir)

	suite := scenarios.NewSuite(t, few()...)
	suite.References(t.Context(), 1)
	g.Expect(suite.Failures()).To(BeZero())
	suite.Workers = suite.Size() // so that the restart affects all scenarios
	pauses := []time.Duration{20 * time.Millisecond}
	if everything() {
		pauses = append(pauses, 0, 50*time.Millisecond, 150*time.Millisecond, 400*time.Millisecond)
	}
	for _, pause := range pauses {
		restart := restartOnce(t.Context(), planes, suite.Size(), pause)
		runs := suite.Runs("the API servers are restarted", func() harness.Plan { return harness.Plan{Parallel: true, During: restart} })
		suite.Execute(t.Context(), runs)
		t.Logf("restart %v into the work: %d runs tried, %d passed", pause, len(runs), len(runs)-suite.Failures())
		g.Expect(suite.Failures()).To(BeZero())
	}
}

// restartOnce returns the function that each run calls as During. Some time after the given number of runs have called it, it restarts the
// servers once. Each call returns after the restart.
func restartOnce(ctx context.Context, planes []*local.ControlPlane, runs int, pause time.Duration) func(*harness.Clock) error {
	begun := make(chan struct{}, runs)
	restart := sync.OnceValue(func() error {
		late := time.After(time.Minute) // a run that has failed never starts
		for range runs {
			select {
			case <-begun:
			case <-late:
			}
		}
		time.Sleep(pause)
		for _, each := range planes {
			if err := each.StopAPIServer(); err != nil {
				return err
			}
		}
		time.Sleep(time.Second)
		for _, each := range planes {
			if err := each.StartAPIServer(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	return func(*harness.Clock) error {
		begun <- struct{}{}
		return restart()
	}
}
