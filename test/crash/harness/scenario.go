package harness

import (
	"time"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/binary"
)

// Step is a change, with the condition that is true when the controllers have processed it.
type Step struct {
	Do func(*World)
	// Until is that condition; nil stands for World.Applied. It need not check whether the result is right.
	Until func(*World) bool
}

// Scenario defines the changes of some sets.
type Scenario struct {
	// Name is a short sentence.
	Name string
	// TwoClusters makes the target a separate cluster without a kube-controller-manager.
	TwoClusters bool
	// Classes are the classes of the controllers, one controller each; nil stands for one controller of the default class. Victim is the index
	// of the controller that is cut off from its API servers.
	Classes []string
	Victim  int
	// Workloads is true if controllers of Kubernetes process the objects. Then the number of writes of a set's health depends on the speed of
	// these controllers, so such writes do not count.
	Workloads bool
	// Configure changes the controllers' configuration; it may be nil.
	Configure func(*config.ResourceManagerConfiguration)

	// Ahead is the time by which the controllers' clock is ahead of the clock of the API servers.
	Ahead time.Duration
	// Waits is true if the controllers wait until some time after a time that an API server recorded. If their clock is set back and stays so,
	// that wait is too long for a test.
	Waits bool

	// Prepare, if not nil, is called once for all runs.
	Prepare func(*managedresourcetest.Env)
	// Begin, if not nil, is called before any controller runs. First contains the steps before Act: the controllers run and are not disturbed.
	Begin func(*World)
	First []Step
	// Down, if not nil, is called after First while no controller runs. Then the cut may also happen while the controller starts after Down.
	Down func(*World)
	// Act contains the steps during which the controller is disturbed, in order.
	Act []Step
	// Meanwhile, if not nil, is a step after the cut while no controller runs. Without a cut, it is the last step.
	Meanwhile *Step
	// Foreign, if not nil, is called again and again: it does the work of another controller.
	Foreign func(*World)

	// Stays are objects that exist after First and must not be deleted or replaced until the end. Goes are objects that must be deleted.
	// Objects that neither lists must behave as in an undisturbed run.
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
	// stays are the objects that are neither deleted nor replaced between First and the end. deletions are all deletion requests.
	stays, deletions []string
}

// Plan defines the disturbances of the controller in one run of a scenario. The zero value means no disturbance.
type Plan struct {
	// Cuts are made one after the other: the first in the first process, the second in the process that takes over, and so on.
	Cuts []binary.Cut
	// Fault disturbs the requests of all processes from Act on. Streams disturbs their watches. Both may be nil.
	Fault, Streams binary.Fault
	// Parallel runs the controllers with their default concurrency; otherwise they do one thing at a time, and so in a fixed order.
	Parallel bool
	// During, if not nil, starts after the first change of Act, and the run waits for its end.
	During func(*Clock) error
	// Behind is true if During sets the clock back, and it stays so.
	Behind bool
}
