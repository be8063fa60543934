package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/binary"
)

const (
	// patience is how long a step may take until everything is in the expected state, on a busy machine.
	patience = 90 * time.Second
	// poll is the pause between two checks.
	poll = 10 * time.Millisecond
	// calm is how long a process must send nothing to count as done. calmUndisturbed is that time for undisturbed runs, in which the requests
	// and the result are recorded, so that there is no other criterion.
	calm            = 120 * time.Millisecond
	calmUndisturbed = 2 * time.Second
)

// Outcome is the result of a run.
type Outcome struct {
	// Made is how many of the planned cuts were made.
	Made int
	// Requests are the counted requests that the first process sent in Act.
	Requests []string

	end       state
	before    state
	deletions []string
}

// stayed reports whether an object existed before Act and was neither deleted nor replaced until the end.
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
	processes []*Process // that run, by number
	started   []*Process
	armed     bool
	first     *Process // the first one that could be cut off
	made      int
	requests  []string
	missed    bool // Meanwhile has not happened yet
}

// Run executes a scenario as planned. With a reference it waits for the same result, otherwise until the controllers send no more requests.
// It uses the permissions and the configuration of the env.
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
		for _, each := range r.started {
			each.Wait()
			err = errors.Join(err, each.Panics())
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
			r.arm(each, number)
		}
	}
	err = r.act()
	if err != nil {
		return Outcome{}, err
	}
	outcome.end, err = r.end()
	outcome.Made, outcome.Requests, outcome.deletions = r.made, r.nameless(r.requests), r.nameless(r.deletions())
	return outcome, errors.Join(err, r.Err())
}

// nameless replaces the namespace in texts that are compared with texts of other runs.
func (r *run) nameless(texts []string) []string {
	all := make([]string, 0, len(texts))
	for _, each := range texts {
		all = append(all, strings.ReplaceAll(each, r.NS, "$NS"))
	}
	return all
}

func (r *run) act() error {
	during := sync.OnceValue(func() error {
		if r.plan.During == nil {
			return nil
		}
		return r.plan.During(r.clock)
	})
	for number, each := range r.scenario.Act {
		if each.Do != nil {
			each.Do(r.World)
		}
		go func() { _ = during() }() // waited for below
		each.Do = nil
		if err := r.step(fmt.Sprintf("step %d", number+1), each); err != nil {
			return errors.Join(err, during())
		}
	}
	if err := during(); err != nil {
		return err
	}
	if r.reference == nil {
		if err := r.await("calm before the end", func() bool { return true }, calmUndisturbed); err != nil {
			return err
		}
	}
	r.requests = r.first.env.Requests.SinceCutOff()
	if r.missed {
		r.missed = false
		return r.step("meanwhile", *r.scenario.Meanwhile)
	}
	return nil
}

// deletions lists the deletion requests of all processes.
func (r *run) deletions() []string {
	var found []string
	for _, each := range r.started {
		found = append(found, each.env.Requests.Seen()...)
	}
	return slices.DeleteFunc(found, func(each string) bool { return !strings.HasPrefix(each, http.MethodDelete) })
}

// end waits for the expected result, or for any result if there is no reference.
func (r *run) end() (state, error) {
	var end state
	if r.reference == nil {
		err := r.await("the end", func() bool {
			before := r.setsSnapshot()
			end = r.observe()
			return (r.scenario.TwoClusters || !outdated(before)) && maps.Equal(before, r.setsSnapshot())
		}, calmUndisturbed)
		return end, err
	}
	sets := maps.Clone(r.reference.End)
	maps.DeleteFunc(sets, func(key, _ string) bool { return !strings.HasPrefix(key, "ManagedResource/") })
	err := r.await("the end", func() bool {
		if !maps.Equal(sets, r.setsSnapshot()) {
			return false
		}
		end = r.observe()
		return maps.Equal(r.reference.End, end.Snapshot)
	}, calm)
	if err != nil {
		end = r.observe()
		return end, fmt.Errorf("%w; it is not as it is undisturbed:\n%s", err, cmp.Diff(r.reference.End, end.Snapshot))
	}
	return end, nil
}

// outdated reports whether a condition says that kube-controller-manager has not processed a workload yet. On a busy machine, that may take
// longer than calmUndisturbed. The target of a scenario with two clusters has no kube-controller-manager: there, workloads stay outdated.
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

// await waits until a condition is true and nothing was sent for some time. If the process is cut off, another process takes over.
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
		if r.quiet(silence) && so() && r.quiet(silence) && !r.victim().Dead() {
			return r.Err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %v for %s", patience, what)
		}
	}
}

func (r *run) quiet(silence time.Duration) bool {
	return !slices.ContainsFunc(r.processes, func(p *Process) bool { return p.Quiet() < silence })
}

// watchProcesses replaces a process that was cut off.
func (r *run) watchProcesses() error {
	for number, each := range r.processes {
		if !each.Dead() {
			if err := each.Failure(); err != nil {
				return err
			}
			continue
		}
		r.made++
		each.Stop()
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
	for _, each := range r.processes {
		each.Stop()
		each.Wait()
	}
	r.processes = nil
}

func (r *run) start(number int) *Process {
	p := &Process{done: make(chan struct{}), log: &binary.Log{Verbosity: 1}}
	p.env = r.env.Another(r.configuration(number), binary.Options{Clock: r.clock, Log: p.log.Logger()})
	p.env.Requests.Counts = Counts
	if r.scenario.Workloads {
		p.env.Requests.Counts = CountsWithoutVerdicts
	}
	p.env.Requests.Disturb(p.observed(nil, r.plan.Streams))
	if r.armed {
		r.arm(p, number)
	}
	r.started = append(r.started, p)
	p.start(r.ctx)
	return p
}

// arm disturbs a process from now on. If it runs the controller Victim and a cut is left, it will be cut off.
func (r *run) arm(p *Process, number int) {
	cut := binary.Cut{}
	if number == r.scenario.Victim {
		if r.first == nil {
			r.first = p
		}
		if r.made < len(r.plan.Cuts) {
			cut = r.plan.Cuts[r.made]
		}
	}
	p.env.Requests.Disturb(p.observed(r.plan.Fault, r.plan.Streams))
	p.env.Requests.CutOff(cut)
}

func (r *run) configuration(number int) *config.ResourceManagerConfiguration {
	cfg := *r.env.Config
	cfg.SourceClientConnection.Namespaces = []string{r.NS}
	if len(r.scenario.Classes) > 0 {
		cfg.Controllers.ResourceClass = ptr.To(r.scenario.Classes[number])
	}
	// A short period would cause requests that no change in the scenario causes.
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
	texts := make([]string, 0, len(r.started))
	for _, each := range r.started {
		texts = append(texts, each.tail())
	}
	return strings.ReplaceAll(strings.Join(texts, "\n-- next process --\n"), r.NS, "$NS")
}
