package flow_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/garden/flow"
)

// ignore is for tests that do not ask what is waited for.
func ignore(string) {}

func TestOnlyAChangeWakesAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var changes flow.Changes
		ready, checks := false, 0
		var ended error
		done := make(chan struct{})
		go func() {
			defer close(done)
			ended = flow.Wait{Changes: &changes, Timeout: 24 * time.Hour}.Until(t.Context(), ignore, func(context.Context) error {
				checks++
				if !ready {
					return errors.New("not ready")
				}
				return nil
			})
		}()

		time.Sleep(time.Hour)
		synctest.Wait()
		g.Expect(checks).To(Equal(1), "checked although nothing had changed")

		changes.Notify()
		synctest.Wait()
		g.Expect(checks).To(Equal(2))

		ready = true
		begin := time.Now()
		changes.Notify()
		<-done
		g.Expect(ended).NotTo(HaveOccurred())
		g.Expect(checks).To(Equal(3))
		g.Expect(time.Since(begin)).To(BeZero())
		changes.Notify() // without an effect
	})
}

func TestAChangeDuringACheckIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var changes flow.Changes
		checks := 0
		err := flow.Wait{Changes: &changes, Timeout: time.Minute}.Until(t.Context(), ignore, func(context.Context) error {
			checks++
			if checks == 1 {
				changes.Notify()
				changes.Notify()
				return errors.New("read before the change")
			}
			return nil
		})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(checks).To(Equal(2))
	})
}

func TestAChangeWakesAllTasksThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var (
			changes flow.Changes
			lock    sync.Mutex
			left    = 20
			tasks   []flow.Task
		)
		for i := range left {
			tasks = append(tasks, task(strconv.Itoa(i), func(ctx context.Context, waitingFor flow.WaitingFor) error {
				return flow.Wait{Changes: &changes, Timeout: time.Minute}.Until(ctx, waitingFor, func(context.Context) error {
					lock.Lock()
					defer lock.Unlock()
					if i != left-1 {
						return fmt.Errorf("%d others are not ready", left-1)
					}
					left--
					changes.Notify()
					return nil
				})
			}))
		}
		_, err := run(t.Context(), g, build(t, tasks...))
		g.Expect(err).NotTo(HaveOccurred())
	})
}

func TestARetryRepeatsAfterEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		begin := time.Now()
		var at []time.Duration
		err := flow.Wait{Interval: 5 * time.Second, Timeout: 30 * time.Second}.Until(t.Context(), ignore, func(context.Context) error {
			at = append(at, time.Since(begin))
			if len(at) < 4 {
				return errors.New("connection refused")
			}
			return nil
		})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(at).To(Equal([]time.Duration{0, 5 * time.Second, 10 * time.Second, 15 * time.Second}))
	})
}

func TestATimeoutReportsTheLastError(t *testing.T) {
	var changes flow.Changes
	for name, tc := range map[string]struct {
		wait  flow.Wait
		check func(attempt int) func(ctx context.Context) error
		want  string
	}{
		"of a retry": {
			wait: flow.Wait{Interval: 5 * time.Second, Timeout: 28 * time.Second},
			check: func(attempt int) func(context.Context) error {
				return func(context.Context) error { return fmt.Errorf("attempt %d was refused", attempt) }
			},
			want: "not done after 28s: attempt 6 was refused",
		},
		"of a wait without a change": {
			wait: flow.Wait{Changes: &changes, Timeout: 5 * time.Minute},
			check: func(int) func(context.Context) error {
				return func(context.Context) error { return errors.New(`Deployment "x" is not available`) }
			},
			want: `not done after 5m0s: Deployment "x" is not available`,
		},
		"and not that of the check which the timeout ended": {
			wait: flow.Wait{Interval: time.Second, Timeout: 10 * time.Second},
			check: func(attempt int) func(context.Context) error {
				return func(ctx context.Context) error {
					if attempt == 1 {
						return errors.New("connection refused")
					}
					<-ctx.Done()
					return ctx.Err()
				}
			},
			want: "not done after 10s: connection refused",
		},
		"or that of the only check": {
			wait: flow.Wait{Interval: time.Second, Timeout: 10 * time.Second},
			check: func(int) func(context.Context) error {
				return func(ctx context.Context) error {
					<-ctx.Done()
					return fmt.Errorf("ask API server: %w", ctx.Err())
				}
			},
			want: "not done after 10s: ask API server: context deadline exceeded",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				if tc.wait.Changes != nil {
					tc.wait.Changes = &flow.Changes{} // of the bubble
				}
				begin, attempt := time.Now(), 0
				err := tc.wait.Until(t.Context(), ignore, func(ctx context.Context) error {
					attempt++
					return tc.check(attempt)(ctx)
				})
				g.Expect(err).To(MatchError(tc.want))
				_, timedOut := errors.AsType[*flow.TimeoutError](err)
				g.Expect(timedOut).To(BeTrue())
				g.Expect(time.Since(begin)).To(Equal(tc.wait.Timeout))
			})
		})
	}
}

func TestACancelledWaitEndsAtOnceWithCauseAndLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		missing := errors.New("the Secret is missing")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begin := time.Now()
		err := flow.Wait{Interval: time.Hour, Timeout: 2 * time.Hour}.Until(ctx, ignore, func(context.Context) error { return missing })
		g.Expect(err).To(MatchError("context canceled while waiting: the Secret is missing"))
		g.Expect(errors.Is(err, context.Canceled)).To(BeTrue())
		g.Expect(errors.Is(err, missing)).To(BeTrue())
		g.Expect(time.Since(begin)).To(Equal(time.Second))
	})
}

func TestAWaitThatNothingRepeatsIsRefused(t *testing.T) {
	err := flow.Wait{Timeout: time.Minute}.Until(t.Context(), ignore, func(context.Context) error {
		t.Error("checked")
		return nil
	})
	NewWithT(t).Expect(err).To(MatchError("wait has neither changes nor an interval"))
}

func TestAWaitSaysWhatIsMissingUntilItIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var said []string
		say := func(sentence string) { said = append(said, sentence) }
		missing := []string{"the Secret is missing", "the token is missing"}
		err := flow.Wait{Interval: time.Second}.Until(t.Context(), say, func(context.Context) error {
			if len(missing) == 0 {
				return nil
			}
			first := missing[0]
			missing = missing[1:]
			return errors.New(first)
		})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(said).To(Equal([]string{"the Secret is missing", "the token is missing", ""}))
	})
}
