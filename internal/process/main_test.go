package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

func TestHowAProcessEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		run     Function
		signals []os.Signal
		grace   time.Duration
		code    int
		out     string
	}{
		"by itself": {
			run:  func(context.Context, []string, io.Writer) error { return nil },
			code: 0,
		},
		"with an error": {
			run:  func(context.Context, []string, io.Writer) error { return errors.New("no water") },
			code: 1, out: "Error: no water\n",
		},
		"with a mistake of its user": {
			run: func(context.Context, []string, io.Writer) error {
				return fmt.Errorf("load: %w", &usageError{err: errors.New("no water"), usage: "Usage: pour\n"})
			},
			code: 1, out: "Error: load: no water\n\nUsage: pour\n",
		},
		"after a signal": {
			run:     func(ctx context.Context, _ []string, _ io.Writer) error { <-ctx.Done(); return nil },
			signals: []os.Signal{syscall.SIGTERM}, grace: time.Minute, code: 0,
		},
		"after a signal while it was starting": {
			run: func(ctx context.Context, _ []string, _ io.Writer) error {
				<-ctx.Done()
				return fmt.Errorf("connect: %w", ctx.Err())
			},
			signals: []os.Signal{syscall.SIGINT}, grace: time.Minute, code: 0,
		},
		"after a signal with an error of its lease": {
			run: func(ctx context.Context, _ []string, _ io.Writer) error {
				<-ctx.Done()
				return errors.New("leader election lost")
			},
			signals: []os.Signal{syscall.SIGTERM}, grace: time.Minute, code: 0,
		},
		"after a signal with an error": {
			run:     func(ctx context.Context, _ []string, _ io.Writer) error { <-ctx.Done(); return errors.New("no water") },
			signals: []os.Signal{syscall.SIGTERM}, grace: time.Minute, code: 1, out: "Error: no water\n",
		},
		"too late after a signal": {
			run:     func(context.Context, []string, io.Writer) error { time.Sleep(time.Hour); return nil },
			signals: []os.Signal{syscall.SIGTERM}, grace: time.Millisecond, code: 1, out: "Error: stop: not finished within 1ms\n",
		},
		"in order if the second signal comes with the first": {
			run: func(ctx context.Context, _ []string, _ io.Writer) error {
				<-ctx.Done()
				time.Sleep(time.Second)
				return nil
			},
			signals: []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, grace: time.Minute, code: 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				signals := make(chan os.Signal, 2)
				for _, s := range tc.signals {
					signals <- s
				}
				var out bytes.Buffer
				g.Expect(supervise(tc.run, nil, &out, signals, tc.grace)).To(Equal(tc.code))
				g.Expect(out.String()).To(Equal(tc.out))
				time.Sleep(2 * time.Hour) // fake time of the bubble, whose goroutines must all end
			})
		})
	}
}

func TestALaterSecondSignalEndsAProcessAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		signals := make(chan os.Signal, 2)
		go func() {
			signals <- syscall.SIGTERM
			time.Sleep(repeatedSignal + time.Millisecond)
			signals <- syscall.SIGTERM
		}()
		var out bytes.Buffer
		slow := func(ctx context.Context, _ []string, _ io.Writer) error {
			<-ctx.Done()
			time.Sleep(time.Hour)
			return nil
		}
		g.Expect(supervise(slow, nil, &out, signals, time.Minute)).To(Equal(1))
		g.Expect(out.String()).To(Equal("Error: stopped at once by a second signal\n"))
		time.Sleep(2 * time.Hour)
	})
}

func TestControllersStopWithinTheGrace(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Grace).To(Equal(5 * time.Second))
	g.Expect(shutdownTimeout).To(BeNumerically("<", Grace))
}
