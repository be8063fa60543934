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

	"github.com/espalier-dev/espalier/internal/flow"
)

// notifiedEvery returns Changes that are notified after each interval, until the test ends.
func notifiedEvery(t *testing.T, interval time.Duration) *flow.Changes {
	t.Helper()
	changes, ticker, over := &flow.Changes{}, time.NewTicker(interval), make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				changes.Notify()
			case <-over:
				return
			}
		}
	}()
	t.Cleanup(func() {
		ticker.Stop()
		close(over)
	})
	return changes
}

func TestOnlyAChangeWakesAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var changes flow.Changes
		ready, checks := false, 0
		var ended error
		done := make(chan struct{})
		go func() {
			defer close(done)
			ended = changes.Until(t.Context(), 24*time.Hour, func(context.Context) error {
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
		err := changes.Until(t.Context(), time.Minute, func(context.Context) error {
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
			tasks = append(tasks, task(strconv.Itoa(i), func(ctx context.Context) error {
				return changes.Until(ctx, time.Minute, func(context.Context) error {
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

func TestEachChangeRepeatsTheCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		begin := time.Now()
		var at []time.Duration
		err := notifiedEvery(t, 5*time.Second).Until(t.Context(), 30*time.Second, func(context.Context) error {
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
	for name, tc := range map[string]struct {
		interval, timeout time.Duration
		check             func(attempt int) func(ctx context.Context) error
		want              string
	}{
		"of repeated checks": {
			interval: 5 * time.Second, timeout: 28 * time.Second,
			check: func(attempt int) func(context.Context) error {
				return func(context.Context) error { return fmt.Errorf("attempt %d was refused", attempt) }
			},
			want: "not done after 28s: attempt 6 was refused",
		},
		"of a wait without a change": {
			interval: time.Hour, timeout: 5 * time.Minute,
			check: func(int) func(context.Context) error {
				return func(context.Context) error { return errors.New(`Deployment "x" is not available`) }
			},
			want: `not done after 5m0s: Deployment "x" is not available`,
		},
		"and not that of the check which the timeout ended": {
			interval: time.Second, timeout: 10 * time.Second,
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
			interval: time.Second, timeout: 10 * time.Second,
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
				begin, attempt := time.Now(), 0
				err := notifiedEvery(t, tc.interval).Until(t.Context(), tc.timeout, func(ctx context.Context) error {
					attempt++
					return tc.check(attempt)(ctx)
				})
				g.Expect(err).To(MatchError(tc.want))
				_, timedOut := errors.AsType[*flow.TimeoutError](err)
				g.Expect(timedOut).To(BeTrue())
				g.Expect(time.Since(begin)).To(Equal(tc.timeout))
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
		err := new(flow.Changes).Until(ctx, 2*time.Hour, func(context.Context) error { return missing })
		g.Expect(err).To(MatchError("context canceled while waiting: the Secret is missing"))
		g.Expect(errors.Is(err, context.Canceled)).To(BeTrue())
		g.Expect(errors.Is(err, missing)).To(BeTrue())
		g.Expect(time.Since(begin)).To(Equal(time.Second))
	})
}

func TestAWaitSaysWhatIsMissingUntilItIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var said []string
		ctx := flow.OnWait(t.Context(), func(sentence string) { said = append(said, sentence) })
		missing := []string{"the Secret is missing", "the token is missing"}
		err := notifiedEvery(t, time.Second).Until(ctx, 0, func(context.Context) error {
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

func TestObserverOfATaskHidesNoReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var said []string
		r, err := record(t, g, flow.Options{}, task("a", func(ctx context.Context) error {
			flow.ReportWait(flow.OnWait(ctx, func(sentence string) { said = append(said, sentence) }), "Waits for etcd.")
			time.Sleep(time.Second)
			return nil
		}))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(said).To(Equal([]string{"Waits for etcd."}))
		g.Expect(messages(r.latest[0])).To(Equal(map[string]string{"a": "Waits for etcd."}))
	})
}
