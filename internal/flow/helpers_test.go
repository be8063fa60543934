package flow_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/internal/flow"
)

// work is the function that does the work of a task.
type work = func(context.Context) error

// bubbleClock shows the time of the bubble in which it is used.
var bubbleClock clock.PassiveClock = clock.RealClock{}

func task(name string, run work, dependsOn ...string) flow.Task {
	return flow.Task{Name: name, Run: run, DependsOn: dependsOn}
}

func skipped(name string, dependsOn ...string) flow.Task {
	return flow.Task{Name: name, SkipReason: name + " is not needed.", DependsOn: dependsOn}
}

// succeed is work that takes no time.
func succeed(context.Context) error { return nil }

// fail is work that returns an error at once.
func fail(err error) work {
	return func(context.Context) error { return err }
}

// takes returns work that takes this time of the bubble. The work does not end early when its context ends.
func takes(duration time.Duration) work {
	return func(context.Context) error {
		time.Sleep(duration)
		return nil
	}
}

func build(t *testing.T, tasks ...flow.Task) *flow.Flow {
	t.Helper()
	built, err := flow.New("Garden reconciliation", tasks)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return built
}

// goroutines returns the stacks of all goroutines that the package started and that still exist.
func goroutines() []string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var found []string
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "created by github.com/espalier-dev/espalier/internal/flow.") {
			found = append(found, stack)
		}
	}
	return found
}

// run runs a flow without reports and requires that it leaves no goroutine behind. It is called in a bubble of synctest, in
// which time passes only while all goroutines wait.
func run(ctx context.Context, g Gomega, f *flow.Flow) (flow.Status, error) {
	return runWith(ctx, g, f, flow.Options{})
}

func runWith(ctx context.Context, g Gomega, f *flow.Flow, o flow.Options) (flow.Status, error) {
	o.Clock = bubbleClock
	status, err := f.Run(ctx, o)
	synctest.Wait() // until the goroutines that have sent their last result are gone
	g.Expect(goroutines()).To(BeEmpty(), "goroutines that Run left behind")
	return status, err
}

// states returns the state of each task by name.
func states(s flow.Status) map[string]flow.State {
	found := map[string]flow.State{}
	for _, each := range s.Tasks {
		found[each.Name] = each.State
	}
	return found
}

// messages returns the message of each task by name, without the empty ones.
func messages(s flow.Status) map[string]string {
	found := map[string]string{}
	for _, each := range s.Tasks {
		if each.Message != "" {
			found[each.Name] = each.Message
		}
	}
	return found
}
