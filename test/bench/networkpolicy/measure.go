package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// calm is how long nothing may happen before the requests are counted.
const calm = 2 * time.Second

// fewest is the minimum number of policies for which the ratio of the times is meaningful.
const fewest = 2000

// measure prints one scenario and reports whether all targets are met.
func (w *world) measure(ctx context.Context, s scenario, rounds int) (bool, error) {
	w.say("\n%s: %d policies", s.text, s.policies())
	if err := w.create(ctx, s); err != nil {
		return false, err
	}
	var ours, floor time.Duration
	for range rounds {
		took, bodies, err := w.converge(ctx, s)
		if err != nil {
			return false, err
		}
		bare, err := w.floor(ctx, bodies)
		if err != nil {
			return false, err
		}
		w.say("  controller, from the start of its process: %s; bare client: %s", show(took), show(bare))
		ours, floor = ours+took, floor+bare
	}
	ratio := float64(ours) / float64(floor)
	if s.policies() < fewest {
		w.say("  first convergence ÷ bare client: %.2f, not judged: with so few policies, the start of the process is what counts", ratio)
		return w.namespaces(ctx, s)
	}
	fast := w.judge("  first convergence ÷ bare client", fmt.Sprintf("%.2f", ratio), fmt.Sprintf("≤ %.1f", target), ratio <= target)
	cheap, err := w.namespaces(ctx, s)
	return fast && cheap, err
}

func show(d time.Duration) string { return d.Round(10 * time.Millisecond).String() }

func (w *world) judge(what, got, want string, met bool) bool {
	w.say("%s: %s (target %s): %s", what, got, want, map[bool]string{true: "met", false: "NOT MET"}[met])
	return met
}

// converge starts the controller, waits until it has created everything, and stops it again.
func (w *world) converge(ctx context.Context, s scenario) (took time.Duration, bodies []*networkingv1.NetworkPolicy, err error) {
	c, err := w.start(s)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	err = c.created(ctx, s.policies())
	if err != nil {
		return 0, nil, err
	}
	took = time.Since(c.started)
	bodies, err = w.bodies(ctx)
	if err == nil && len(bodies) != s.policies() {
		err = fmt.Errorf("there are %d policies and not %d", len(bodies), s.policies())
	}
	return took, bodies, err
}

// floor deletes all policies, creates them with the bare client, and deletes them again.
func (w *world) floor(ctx context.Context, bodies []*networkingv1.NetworkPolicy) (time.Duration, error) {
	if err := w.clear(ctx, bodies); err != nil {
		return 0, err
	}
	began := time.Now()
	err := parallel(ctx, len(bodies), func(ctx context.Context, i int) error { return w.bare.Create(ctx, bodies[i].DeepCopy()) })
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	return took, w.clear(ctx, bodies)
}

// namespaces measures what new namespaces cost an idle controller.
func (w *world) namespaces(ctx context.Context, s scenario) (met bool, err error) {
	c, err := w.start(s)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	err = c.created(ctx, s.policies())
	if err != nil {
		return false, err
	}
	unrelated, err := c.cost(ctx, func() error {
		return w.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name + "-unrelated"}})
	})
	if err != nil {
		return false, err
	}
	met = w.judge("  requests for one unrelated namespace", strconv.Itoa(unrelated), "0", unrelated == 0)
	matching, err := c.cost(ctx, func() error { return w.createOne(ctx, s, s.namespaces) })
	if err != nil {
		return false, err
	}
	met = w.judge(fmt.Sprintf("  requests for one more matching namespace, which needs %d policies", s.growth()), strconv.Itoa(matching), strconv.Itoa(s.growth()), matching == s.growth()) && met
	w.say("  peak memory of the controller: %s", peakMemory(c.process.ID))
	bodies, err := w.bodies(ctx)
	if err != nil {
		return false, err
	}
	if len(bodies) != s.policies()+s.growth() {
		return false, fmt.Errorf("there are %d policies and not %d", len(bodies), s.policies()+s.growth())
	}
	return met, errors.Join(c.stop(), w.clear(ctx, bodies))
}
