package harness

import (
	"time"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/binary"
)

// Step is a change, and the condition by which the controllers have processed it.
type Step struct {
	Do func(*World)
	// Until is World.Applied if it is nil. It does not check whether the result is right.
	Until func(*World) bool
}

// Scenario defines the changes of some sets.
type Scenario struct {
	// Name is a short sentence.
	Name string
	// TwoClusters makes the target a separate cluster without a controller manager.
	TwoClusters bool
	// Classes are the classes of the controllers, one controller each; nil stands for one controller of the default class. Victim
	// is the number of the controller that is cut off.
	Classes []string
	Victim  int
	// Workloads means that controllers of the cluster work on the objects: then the number of writes of a set's health depends on their
	// speed, and these writes do not count.
	Workloads bool
	// Configure changes the controllers' configuration; it may be nil.
	Configure func(*config.ResourceManagerConfiguration)

	// Ahead is the time by which the controllers' clock is ahead of the clock of the API servers.
	Ahead time.Duration
	// Waits means that the controllers wait until their clock has reached a time relative to one that an API server recorded. If the clock
	// is set back for good, the wait is too long for a test.
	Waits bool

	// Prepare, if not nil, is called once for all runs.
	Prepare func(*managedresourcetest.Env)
	// Begin, if not nil, is called before any controller runs, and First while one runs; it is processed undisturbed.
	Begin func(*World)
	First []Step
	// Down, if not nil, is called after First while no controller runs. The start of the controller is then disturbed too.
	Down func(*World)
	// Act contains the steps in which the cut happens, one after the other.
	Act []Step
	// Meanwhile, if not nil, happens after the cut while no controller runs, otherwise at the end.
	Meanwhile *Step
	// Foreign, if not nil, is called again and again: it does the work of another controller.
	Foreign func(*World)

	// Stays are objects that exist after First and must not be replaced until the end; Goes are some that must be deleted. Objects that are
	// not listed must behave as in an undisturbed run.
	Stays, Goes []string
	// Kept are objects that at the end intentionally have the origin of a set that does not list them.
	Kept []string
}

// Reference is the result of undisturbed runs of a scenario.
type Reference struct {
	// Requests are the counted requests, in order.
	Requests []string
	// End is the complete state at the end.
	End Snapshot
	// stays are the objects that are not replaced between First and the end; deletions are all deletions.
	stays, deletions []string
}

// Plan defines the disturbances of the controller in one run of a scenario. The zero value means none.
type Plan struct {
	// Cuts are made in the first process, in the one that takes over, and so on.
	Cuts []binary.Cut
	// Fault disturbs the requests of all of them from Act on, Streams disturbs their watches. Both may be nil.
	Fault, Streams binary.Fault
	// Parallel runs the controllers with their default concurrency; otherwise they do one thing at a time, and so in a fixed order.
	Parallel bool
	// During, if not nil, starts after the first change of Act, and the run waits for its end.
	During func(*Clock) error
	// Behind is true if During sets the clock back for good.
	Behind bool
}
