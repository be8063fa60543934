package flow_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/flow"
)

func TestErrorListsTheTasksThatFailedInTheOrderOfTheFlow(t *testing.T) {
	for name, tc := range map[string]struct {
		tasks []flow.Task
		want  string
	}{
		"one task": {
			tasks: []flow.Task{task("a", succeed), task("Deploying Istio", fail(errors.New("boom")))},
			want:  "1 error occurred:\n\t* task \"Deploying Istio\" failed: boom",
		},
		"two tasks, of which the second fails first": {
			tasks: []flow.Task{
				task("b", func(context.Context) error {
					time.Sleep(time.Second)
					return errors.New("late")
				}),
				task("a", fail(errors.New("early"))),
				task("c", succeed, "a"),
			},
			want: "2 errors occurred:\n\t* task \"b\" failed: late\n\t* task \"a\" failed: early",
		},
		"a panic": {
			tasks: []flow.Task{task("a", func(context.Context) error { panic("no domain") })},
			want:  "1 error occurred:\n\t* task \"a\" failed: panic: no domain",
		},
		"a task that ends its goroutine": {
			tasks: []flow.Task{task("a", func(context.Context) error {
				runtime.Goexit()
				return nil
			})},
			want: "1 error occurred:\n\t* task \"a\" failed: goroutine ended without a result",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				_, err := run(t.Context(), g, build(t, tc.tasks...))
				g.Expect(err).To(MatchError(tc.want))
			})
		})
	}
}

func TestErrorsOfTasksCanBeFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		conflicting := apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "ca", errors.New("changed"))
		_, err := run(t.Context(), g, build(t, task("a", fail(conflicting)), task("b", fail(conflicting))))

		g.Expect(errors.Is(err, conflicting)).To(BeTrue())
		g.Expect(conflict.Only(err)).To(BeTrue())
		failed, ok := errors.AsType[flow.TaskErrors](err)
		g.Expect(ok).To(BeTrue())
		g.Expect(failed).To(Equal(flow.TaskErrors{{Task: "a", Err: conflicting}, {Task: "b", Err: conflicting}}))

		_, err = run(t.Context(), g, build(t, task("a", func(context.Context) error { panic("no domain") })))
		panicked, ok := errors.AsType[*flow.PanicError](err)
		g.Expect(ok).To(BeTrue())
		g.Expect(string(panicked.Stack)).To(ContainSubstring("run_test.go"))
	})
}

func TestAfterAFailureOnlyDependantsDoNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		status, err := run(t.Context(), g, build(t,
			task("etcd", fail(errors.New("no disk"))),
			task("API server", succeed, "etcd", "Istio"),
			task("controller manager", succeed, "API server"),
			task("Istio", takes(time.Hour)),
			task("gateway", takes(time.Hour), "Istio"),
		))
		g.Expect(err).To(HaveOccurred())
		g.Expect(states(status)).To(Equal(map[string]flow.State{
			"etcd": flow.Failed, "API server": flow.Pending, "controller manager": flow.Pending, "Istio": flow.Succeeded, "gateway": flow.Succeeded,
		}))
		g.Expect(status.Progress).To(Equal(40))
		g.Expect(status.Description).To(BeEmpty())
		g.Expect(messages(status)).To(Equal(map[string]string{
			"etcd":               "no disk",
			"API server":         `Does not start because task "etcd" failed.`,
			"controller manager": `Does not start because task "etcd" failed.`,
		}))
	})
}

// The graph is like the graph of the tasks that annotate Seeds. While only the certificate authorities are rotated, the tasks for tokens
// are skipped, and the task for kubeconfigs must still wait for the connection.
func TestASkippedTaskChangesNoOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var connected bool
		status, err := run(t.Context(), g, build(t,
			task("connect", func(context.Context) error {
				time.Sleep(time.Minute)
				connected = true
				return nil
			}),
			skipped("renew access secrets", "connect"),
			skipped("check access secrets", "renew access secrets"),
			task("renew kubeconfigs", func(context.Context) error {
				if !connected {
					return errors.New("started before there was a connection")
				}
				return nil
			}, "check access secrets"),
		))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(status.Progress).To(Equal(100))
		g.Expect(states(status)).To(HaveKeyWithValue("renew access secrets", flow.Skipped))
		g.Expect(messages(status)).To(HaveKeyWithValue("renew access secrets", "renew access secrets is not needed."))
	})
}

func TestAFlowWithNothingToDoIsFinished(t *testing.T) {
	for name, tasks := range map[string][]flow.Task{
		"no tasks":           nil,
		"only skipped tasks": {skipped("a"), skipped("b", "a")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				status, err := run(t.Context(), g, build(t, tasks...))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(status.Progress).To(Equal(100))
				g.Expect(status.Description).To(Equal("Garden reconciliation finished"))
			})
		})
	}
}

func TestAfterTheEndOfTheContextNoTaskStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		replaced := errors.New("another process took the lease")
		ctx, cancel := context.WithCancelCause(t.Context())
		status, err := run(ctx, g, build(t,
			task("a", func(ctx context.Context) error {
				cancel(replaced)
				<-ctx.Done()
				time.Sleep(time.Minute) // to clean up
				return nil
			}),
			task("b", succeed, "a"),
			task("c", succeed, "b"),
		))
		g.Expect(err).To(MatchError(`flow "Garden reconciliation" was cancelled: another process took the lease`))
		g.Expect(errors.Is(err, replaced)).To(BeTrue())
		g.Expect(states(status)).To(Equal(map[string]flow.State{"a": flow.Succeeded, "b": flow.Pending, "c": flow.Pending}))
		g.Expect(messages(status)).To(Equal(map[string]string{
			"b": "Does not start because the flow was cancelled.",
			"c": "Does not start because the flow was cancelled.",
		}))
	})
}

func TestErrorOfACancelledFlowHasTheErrorsOfItsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := run(ctx, g, build(t,
			task("a", func(ctx context.Context) error {
				cancel()
				return ctx.Err()
			}),
			task("b", takes(time.Second)),
			task("c", succeed, "b"),
		))
		g.Expect(err).To(MatchError("flow \"Garden reconciliation\" was cancelled: context canceled\n" +
			"1 error occurred:\n\t* task \"a\" failed: context canceled"))
	})
}

func TestAContextThatEndsDuringTheLastTaskIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		ctx, cancel := context.WithCancel(t.Context())
		status, err := run(ctx, g, build(t, task("a", func(context.Context) error {
			cancel()
			return nil
		})))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(status.Progress).To(Equal(100))
	})
}

func TestRunLeavesNoGoroutineBehind(t *testing.T) {
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		tasks   []flow.Task
		options flow.Options
		timeout time.Duration
	}{
		"after a success":               {tasks: []flow.Task{task("a", takes(time.Second)), task("b", succeed, "a")}},
		"after a failure":               {tasks: []flow.Task{task("a", fail(boom)), task("b", takes(time.Second)), task("c", succeed, "a")}},
		"after a panic":                 {tasks: []flow.Task{task("a", func(context.Context) error { panic(boom) })}},
		"in the pause after a report":   {tasks: []flow.Task{task("a", takes(time.Second))}, options: flow.Options{ReportInterval: time.Hour}},
		"before the first report":       {tasks: []flow.Task{task("a", takes(time.Second))}, options: flow.Options{ReportDelay: time.Hour}},
		"when the context ends":         {tasks: []flow.Task{task("a", takes(time.Minute)), task("b", succeed, "a")}, timeout: time.Second},
		"when the context ends a wait":  {tasks: []flow.Task{task("a", awaitForever)}, timeout: time.Second},
		"when the context ended before": {tasks: []flow.Task{task("a", succeed)}, timeout: time.Nanosecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.timeout > 0 {
					ctx, cancel = context.WithTimeout(ctx, tc.timeout)
					defer cancel()
				}
				time.Sleep(time.Nanosecond)
				tc.options.Report = func(context.Context, flow.Status) { g.Expect(goroutines()).NotTo(BeEmpty(), "that of the report") }
				_, _ = runWith(ctx, g, build(t, tc.tasks...), tc.options) // requires it
			})
		})
	}
}

// awaitForever is work that waits for a change which never comes.
func awaitForever(ctx context.Context) error {
	return new(flow.Changes).Until(ctx, 0, func(context.Context) error { return errors.New("not there") })
}

func TestAFlowMayRunSeveralTimesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		built := build(t, task("a", takes(time.Second)), task("b", succeed, "a"))
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				status, err := built.Run(t.Context(), flow.Options{Clock: bubbleClock})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(status.Progress).To(Equal(100))
			})
		}
		all.Wait()
	})
}

func TestAMessageAfterTheEndOfATaskHasNoEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var late context.Context
		status, err := run(t.Context(), g, build(t,
			task("a", func(ctx context.Context) error {
				late = ctx //nolint:fatcontext // there is one task
				return nil
			}),
			task("b", func(context.Context) error {
				flow.ReportWait(late, "Waits for etcd.")
				return nil
			}, "a"),
		))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(messages(status)).To(BeEmpty())
		flow.ReportWait(late, "Waits for etcd.")
		g.Expect(messages(status)).To(BeEmpty())
	})
}

func TestMessagesAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		long := strings.Repeat("x", 10_000)
		status, err := run(t.Context(), g, build(t,
			task("a", fail(errors.New(long))),
			flow.Task{Name: "b", SkipReason: long},
			task(long, fail(errors.New("boom"))),
			task("c", succeed, long),
		))
		g.Expect(err).To(HaveOccurred())
		for _, each := range status.Tasks {
			g.Expect(len(each.Message)).To(BeNumerically("<=", 256), each.Name)
		}
	})
}
