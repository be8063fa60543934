package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

const (
	// patience is how long a step may take until everything is in the expected state, on a busy machine.
	patience = 90 * time.Second
	// poll is the pause between two checks.
	poll = 10 * time.Millisecond
	// calm is how long a process must send nothing to count as done. calmUndisturbed is the same if there is no other criterion: when the
	// number of requests and the result are to be determined.
	calm            = 120 * time.Millisecond
	calmUndisturbed = 2 * time.Second
)

// Outcome is the result of a run.
type Outcome struct {
	// Made is how many of the cuts were made.
	Made int
	// Requests are those that the first process sent in Act and that count.
	Requests []string

	end       state
	before    state
	deletions []string
}

// stayed reports whether an object existed before and was not replaced until the end.
func (o Outcome) stayed(key string) bool {
	return o.before.uids[key] != "" && o.end.uids[key] == o.before.uids[key]
}

// run is one run of a scenario.
type run struct {
	*World
	scenario  Scenario
	plan      Plan
	reference *Reference
	env       *managedresourcetest.Env

	clock     *Clock
	processes []*Process
	ended     []*Process
	armed     bool
	made      int
	requests  []string
	deletions []string
	missed    bool // Meanwhile has not happened yet
}

// Run executes a scenario as planned. With a reference it requires the same result, otherwise it waits until nothing happens any more. It
// uses the rights and the configuration of the env.
func Run(
	ctx context.Context, env *managedresourcetest.Env, scenario Scenario, plan Plan, reference *Reference,
) (outcome Outcome, err error) {
	world, err := NewWorld(ctx, env.Source, env.Target)
	if err != nil {
		return Outcome{}, err
	}
	r := &run{World: world, scenario: scenario, plan: plan, reference: reference, env: env, clock: &Clock{}, missed: scenario.Meanwhile != nil}
	r.clock.Jump(scenario.Ahead)
	defer func() {
		for _, each := range r.processes {
			each.Stop()
		}
		for _, each := range append(r.processes, r.ended...) {
			each.Wait()
			if failure := each.Failure(); failure != nil {
				err = errors.Join(err, failure)
			}
		}
		if err != nil {
			err = fmt.Errorf("%w\nthe end of the controllers' logs:\n%s", err, r.logs())
		}
		err = errors.Join(err, world.Close(context.WithoutCancel(ctx)))
	}()
	return r.drive()
}

func (r *run) drive() (outcome Outcome, err error) {
	if r.scenario.Begin != nil {
		r.scenario.Begin(r.World)
	}
	r.startAll()
	for number, each := range r.scenario.First {
		err = r.step(fmt.Sprintf("first state, step %d", number+1), each)
		if err != nil {
			return Outcome{}, err
		}
	}
	outcome.before = r.observe()
	if r.scenario.Down != nil {
		r.stopAll()
		r.scenario.Down(r.World)
		r.armed = true
		r.startAll()
	} else {
		r.armed = true
		for number, each := range r.processes {
			r.arm(each.Gate, number)
		}
	}
	err = r.act()
	if err != nil {
		return Outcome{}, err
	}
	outcome.end, err = r.end()
	outcome.Made, outcome.Requests, outcome.deletions = r.made, r.nameless(r.requests), r.nameless(r.deletions)
	return outcome, errors.Join(err, r.Err())
}

// nameless replaces the namespace in texts that are compared with those of other runs.
func (r *run) nameless(texts []string) []string {
	all := make([]string, 0, len(texts))
	for _, each := range texts {
		all = append(all, strings.ReplaceAll(each, r.NS, "$NS"))
	}
	return all
}

func (r *run) act() error {
	during := make(chan error, 1)
	begin := sync.OnceFunc(func() {
		defer close(during)
		if r.plan.During != nil {
			during <- r.plan.During(r.clock)
		}
	})
	for number, each := range r.scenario.Act {
		if each.Do != nil {
			each.Do(r.World)
		}
		go begin()
		each.Do = nil
		if err := r.step(fmt.Sprintf("step %d", number+1), each); err != nil {
			return errors.Join(err, <-during)
		}
	}
	if err := <-during; err != nil {
		return err
	}
	if r.reference == nil {
		if err := r.await("calm before the end", func() bool { return true }, calmUndisturbed); err != nil {
			return err
		}
	}
	r.note()
	if r.missed {
		r.missed = false
		return r.step("meanwhile", *r.scenario.Meanwhile)
	}
	return nil
}

// note records the requests of the process that runs first.
func (r *run) note() {
	if r.requests == nil {
		r.requests = r.victim().Gate.Seen()
	}
}

// end waits for the expected result, or for any result if there is no reference.
func (r *run) end() (state, error) {
	var end state
	if r.reference == nil {
		err := r.await("the end", func() bool {
			before := r.setsSnapshot()
			end = r.observe()
			return (r.scenario.TwoClusters || !outdated(before)) && difference(before, r.setsSnapshot()) == ""
		}, calmUndisturbed)
		r.note()
		r.collect()
		return end, err
	}
	sets := Snapshot{}
	for key, text := range r.reference.End {
		if strings.HasPrefix(key, "ManagedResource/") {
			sets[key] = text
		}
	}
	err := r.await("the end", func() bool {
		if difference(sets, r.setsSnapshot()) != "" {
			return false
		}
		end = r.observe()
		return difference(r.reference.End, end.Snapshot) == ""
	}, calm)
	r.collect()
	if err != nil {
		end = r.observe()
		return end, fmt.Errorf("%w; it is not as it is undisturbed:\n%s", err, difference(r.reference.End, end.Snapshot))
	}
	return end, nil
}

// outdated reports whether the condition of a set says that the controller manager has not seen a workload yet. On a busy machine, that
// takes
// longer than any pause. The target of a scenario with two clusters has no controller manager: there, workloads stay outdated.
func outdated(sets Snapshot) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(sets)), func(text string) bool {
		return strings.Contains(text, "observed generation outdated")
	})
}

// step makes a change and waits until the controllers have processed it.
func (r *run) step(what string, step Step) error {
	if step.Do != nil {
		step.Do(r.World)
	}
	until := step.Until
	if until == nil {
		until = (*World).Applied
	}
	return r.await(what, func() bool { return until(r.World) }, calm)
}

// await waits until a condition is true and nothing was sent for some time. If the process is cut off, another one takes over.
func (r *run) await(what string, so func() bool, silence time.Duration) error {
	deadline := time.Now().Add(patience)
	for ; ; time.Sleep(poll) {
		if r.Err() != nil {
			return r.Err()
		}
		if err := r.watchProcesses(); err != nil {
			return err
		}
		if r.scenario.Foreign != nil {
			r.scenario.Foreign(r.World)
		}
		if r.quiet(silence) && so() && r.quiet(silence) && !r.victim().Gate.Dead() {
			return r.Err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %v for %s", patience, what)
		}
	}
}

func (r *run) quiet(silence time.Duration) bool {
	return !slices.ContainsFunc(r.processes, func(p *Process) bool { return p.Gate.Quiet() < silence })
}

// watchProcesses replaces a process that was cut off.
func (r *run) watchProcesses() error {
	for number, each := range r.processes {
		if !each.Gate.Dead() {
			if err := each.Failure(); err != nil {
				return err
			}
			continue
		}
		r.made++
		r.note()
		r.deletions = append(r.deletions, each.Gate.Deletions()...)
		each.Stop()
		r.ended = append(r.ended, each)
		if r.missed {
			r.missed = false
			r.scenario.Meanwhile.Do(r.World)
		}
		r.processes[number] = r.start(number)
	}
	return nil
}

func (r *run) victim() *Process { return r.processes[r.scenario.Victim] }

func (r *run) startAll() {
	for number := range max(1, len(r.scenario.Classes)) {
		r.processes = append(r.processes, r.start(number))
	}
}

func (r *run) stopAll() {
	r.collect()
	for _, each := range r.processes {
		each.Stop()
		each.Wait()
	}
	r.ended, r.processes = append(r.ended, r.processes...), nil
}

// collect records the deletions of the running processes.
func (r *run) collect() {
	for _, each := range r.processes {
		r.deletions = append(r.deletions, each.Gate.Deletions()...)
	}
}

func (r *run) start(number int) *Process {
	counts := Counts
	if r.scenario.Workloads {
		counts = CountsWithoutVerdicts
	}
	gate := NewGate(counts, r.plan.Streams)
	if r.armed {
		r.arm(gate, number)
	}
	return StartProcess(r.ctx, r.configuration(number), gate, r.clock)
}

func (r *run) arm(gate *Gate, number int) {
	cut := Cut{}
	if number == r.scenario.Victim && r.made < len(r.plan.Cuts) {
		cut = r.plan.Cuts[r.made]
	}
	gate.Arm(cut, r.plan.Fault)
}

func (r *run) configuration(number int) *config.ResourceManagerConfiguration {
	cfg := *r.env.Config
	cfg.SourceClientConnection.Namespaces = []string{r.NS}
	if len(r.scenario.Classes) > 0 {
		cfg.Controllers.ResourceClass = ptr.To(r.scenario.Classes[number])
	}
	// A short period would cause work without a reason in the scenario.
	cfg.Controllers.ManagedResource.SyncPeriod = &metav1.Duration{Duration: time.Minute}
	cfg.Controllers.Health.SyncPeriod = &metav1.Duration{Duration: time.Minute}
	if !r.plan.Parallel {
		one := ptr.To(1)
		cfg.Controllers.ManagedResource.ConcurrentSyncs, cfg.Controllers.Health.ConcurrentSyncs = one, one
		cfg.Espalier.ManagedResource.MaxConcurrentRequests = one
	}
	if r.scenario.Configure != nil {
		r.scenario.Configure(&cfg)
	}
	return &cfg
}

func (r *run) logs() string {
	all := append(slices.Clone(r.ended), r.processes...)
	texts := make([]string, 0, len(all))
	for _, each := range all {
		texts = append(texts, each.log.tail())
	}
	return strings.ReplaceAll(strings.Join(texts, "\n-- next process --\n"), r.NS, "$NS")
}
