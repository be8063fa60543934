package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/test/bench/gauge"
)

// result is the result of the controller.
type result struct {
	convergence, restart phase
	rest                 requests
	checking             effort  // while nothing happens
	memory, peak         float64 // in MiB
}

// phase is a part of the controller's work.
type phase struct {
	took       time.Duration // from its first write to its last
	looked     time.Duration // from the start of the process until the main loop has processed all Projects
	sinceStart time.Duration // from the start of the process until it is in sync
	spent      spent         // by all processes until then
	sent       requests
}

// own measures the controller in its own garden.
func (b *bench) own(ctx context.Context) (r result, err error) {
	g, err := b.newGarden(ctx, "own")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	log := &auditLog{File: g.plane.AuditLog()}
	if r.convergence, err = b.converge(ctx, g, log); err != nil {
		return r, err
	}
	fmt.Printf("first convergence: %s; processor time from the start of the process until it is in sync: %s\n", seconds(r.convergence.took), r.convergence.spent)
	err = g.addUses(ctx, b.options)
	if err != nil {
		return r, err
	}
	c, err := b.start(g, b.options.period.String())
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if r.restart, err = c.follow(ctx, g, log); err != nil {
		return r, err
	}
	err = g.judged(ctx)
	if err != nil {
		return r, err
	}
	if r.rest, r.checking, err = b.rest(ctx, c, log); err != nil {
		return r, err
	}
	if r.memory, r.peak, err = gauge.Memory(c.child.ID); err != nil {
		return r, err
	}
	return r, b.profile(ctx, c, "heap.pprof", memoryInUse)
}

// converge waits until the controller has processed all Projects, and checks the result.
func (b *bench) converge(ctx context.Context, g *garden, log *auditLog) (p phase, err error) {
	c, err := b.start(g, "")
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	written := b.watchConvergence(ctx, c, g)
	if p, err = c.follow(ctx, g, log); err != nil {
		return p, err
	}
	return p, errors.Join(g.complete(ctx), <-written, <-written)
}

// follow waits until the controller is in sync, and counts its requests since the start.
func (c *controller) follow(ctx context.Context, g *garden, log *auditLog) (phase, error) {
	before, err := g.spent(c.child.ID)
	if err != nil {
		return phase{}, err
	}
	found, err := c.settle(ctx, len(g.projects))
	if err != nil {
		return phase{}, err
	}
	after, err := g.spent(c.child.ID)
	if err != nil {
		return phase{}, err
	}
	p := phase{looked: found.looked.Sub(c.started), sinceStart: found.settled.Sub(c.started), spent: after.since(before), sent: requests{}}
	entries, err := log.Next()
	var begin, end time.Time
	for _, each := range entries {
		if !each.counts() {
			continue
		}
		p.sent.add(each)
		if !each.writes() {
			continue
		}
		if begin.IsZero() || each.Received.Before(begin) {
			begin = each.Received
		}
		if each.Done.After(end) {
			end = each.Done
		}
	}
	p.took = end.Sub(begin)
	return p, err
}

// complete fails unless all Projects are Ready and all their objects exist.
func (g *garden) complete(ctx context.Context) error {
	projects := &corev1beta1.ProjectList{}
	if err := g.admin.List(ctx, projects); err != nil {
		return err
	}
	for i := range projects.Items {
		if p := &projects.Items[i]; p.Status.Phase != corev1beta1.ProjectReady || p.Status.ObservedGeneration != p.Generation {
			return fmt.Errorf("project %s is %q of generation %d, not Ready of %d", p.Name, p.Status.Phase, p.Status.ObservedGeneration, p.Generation)
		}
	}
	namespaces := &corev1.NamespaceList{}
	if err := g.admin.List(ctx, namespaces, client.MatchingLabels{"gardener.cloud/role": "project"}); err != nil {
		return err
	}
	if len(namespaces.Items) != len(projects.Items) {
		return fmt.Errorf("%d Projects have %d namespaces", len(projects.Items), len(namespaces.Items))
	}
	return nil
}

// rest counts the requests of the controller while nothing happens, and measures the cost of its checks.
func (b *bench) rest(ctx context.Context, c *controller, log *auditLog) (requests, effort, error) {
	if err := gauge.Pause(ctx, 3*time.Second); err != nil { // wait for the last Events
		return nil, effort{}, err
	}
	if _, err := log.Next(); err != nil {
		return nil, effort{}, err
	}
	before, err := c.effort(ctx)
	if err != nil {
		return nil, effort{}, err
	}
	err = gauge.Pause(ctx, b.options.rest)
	if err != nil {
		return nil, effort{}, err
	}
	after, err := c.effort(ctx)
	if err != nil {
		return nil, effort{}, err
	}
	if after.checks == before.checks {
		return nil, effort{}, errors.New("no Project was checked")
	}
	entries, err := log.Next()
	sent := requests{}
	for _, each := range entries {
		if each.counts() {
			sent.add(each)
		}
	}
	return sent, after.since(before), err
}

// requests are numbers of requests by verb and resource.
type requests map[string]int

func (r requests) add(e entry) {
	resource := e.Object.Resource
	if e.Object.Subresource != "" {
		resource += "/" + e.Object.Subresource
	}
	r[e.Verb+" "+resource]++
}

func (r requests) all() int {
	sum := 0
	for _, count := range r {
		sum += count
	}
	return sum
}

func (r requests) print() {
	for _, name := range slices.Sorted(maps.Keys(r)) {
		fmt.Printf("   %7d %s\n", r[name], name)
	}
}

// entry is a line of the audit log.
type entry struct {
	Verb     string    `json:"verb"`
	Received time.Time `json:"requestReceivedTimestamp"`
	Done     time.Time `json:"stageTimestamp"`
	Object   struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
}

// counts reports whether it is about an object and not a watch, which is renewed every few minutes.
func (e entry) counts() bool { return e.Verb != "watch" && e.Object.Resource != "" }

// writes reports whether it changes an object other than an Event; Events are sent asynchronously.
func (e entry) writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete"}, e.Verb) && e.Object.Resource != "events" &&
		e.Object.Resource != "selfsubjectaccessreviews"
}

// auditLog is read while it grows.
type auditLog = gauge.AuditLog[entry]
