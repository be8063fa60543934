package harness

import (
	"time"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// Step is a change that somebody makes, and how it is told that the controllers have dealt with it.
type Step struct {
	Do func(*World)
	// Until is World.Applied if it is nil. It says nothing about whether the result is right.
	Until func(*World) bool
}

// Scenario is what happens to some sets.
type Scenario struct {
	// Name is a short sentence.
	Name string
	// TwoClusters makes the target a cluster of its own, one without a controller manager.
	TwoClusters bool
	// Classes are those of the controllers that run, one each; nil stands for a single one of the default class. Victim
	// is the number of the one that is cut off.
	Classes []string
	Victim  int
	// Workloads tells that controllers of the cluster work on the objects: then it depends on their speed how often the
	// health of a set is written, and these writes do not count.
	Workloads bool
	// Configure changes the controllers' configuration; it may be nil.
	Configure func(*config.ResourceManagerConfiguration)

	// Ahead is how far the controllers' clock is ahead of that of the API servers.
	Ahead time.Duration

	// Prepare, if it is not nil, is called once for all runs.
	Prepare func(*managedresourcetest.Env)
	// Begin, if it is not nil, happens before any controller runs, and First while one does; it is dealt with undisturbed.
	Begin func(*World)
	First []Step
	// Down, if it is not nil, happens after First while no controller runs, and what a controller does when it starts is
	// disturbed too.
	Down func(*World)
	// Act is what the cut happens in, one step after the other.
	Act []Step
	// Meanwhile, if it is not nil, happens after the cut while no controller runs, or else in the end.
	Meanwhile *Step
	// Foreign, if it is not nil, is called again and again: a controller of somebody else.
	Foreign func(*World)

	// Stays are objects that exist after First and must be the same ones in the end, Goes are some that must not. What
	// is so undisturbed must be so with a cut, whether it is listed here or not.
	Stays, Goes []string
	// Kept are objects that in the end bear the origin of a set which does not list them, on purpose.
	Kept []string
}

// Reference is how a scenario ends undisturbed.
type Reference struct {
	// Requests are those that count, in order.
	Requests []string
	// End is all that there is in the end.
	End Snapshot
	// stays are the objects that are the same ones after First and in the end; deletions all that was deleted.
	stays     map[string]bool
	deletions map[string]bool
}

// Plan is what happens to the controller in one run of a scenario. Its zero value is nothing.
type Plan struct {
	// Cuts are made in the process that runs first, in the one that takes over, and so on.
	Cuts []Cut
	// Fault disturbs what all of them send from Act on, Streams what they watch. Both may be nil.
	Fault, Streams Fault
	// Parallel lets the controllers work with the concurrency that they have by default; otherwise they do one thing at a
	// time, and so in a fixed order.
	Parallel bool
	// During, if it is not nil, begins when the first change of Act was made, and the run waits for its end.
	During func(*Clock) error
}
