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
	"time"

	. "github.com/onsi/gomega"
)

func TestHowASubcommandEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		run     Function
		signals []os.Signal
		code    int
		errs    string
	}{
		"with a result": {run: func(context.Context, []string, io.Writer) error { return nil }},
		"with an error": {
			run: func(context.Context, []string, io.Writer) error { return errors.New("no water") }, code: 2, errs: "Error: no water\n",
		},
		"with a code and no text": {run: func(context.Context, []string, io.Writer) error { return Exit(1, nil) }, code: 1},
		"with a code and a text": {
			run: func(context.Context, []string, io.Writer) error {
				return fmt.Errorf("x: %w", Exit(3, errors.New("no water")))
			},
			code: 3, errs: "Error: no water\n",
		},
		"after a signal": {
			run:     func(context.Context, []string, io.Writer) error { select {} },
			signals: []os.Signal{syscall.SIGINT, syscall.SIGINT}, code: 2, errs: "Error: interrupted\n",
		},
		"after a signal, with an incomplete result": {
			run:     func(ctx context.Context, _ []string, _ io.Writer) error { <-ctx.Done(); return nil },
			signals: []os.Signal{syscall.SIGINT}, code: 2, errs: "Error: interrupted\n",
		},
		"after a signal, which it waits for": {
			run:     func(ctx context.Context, _ []string, _ io.Writer) error { <-ctx.Done(); return Exit(0, nil) },
			signals: []os.Signal{syscall.SIGINT},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			signals := make(chan os.Signal, 2)
			for _, s := range tc.signals {
				signals <- s
			}
			var out, errs bytes.Buffer
			s := Subcommand{Run: tc.run}
			g.Expect(s.supervise(nil, &out, &errs, signals, time.Minute)).To(Equal(tc.code))
			g.Expect(errs.String()).To(Equal(tc.errs))
			g.Expect(out.String()).To(BeEmpty())
		})
	}
}

func TestTheFirstArgumentChoosesASubcommand(t *testing.T) {
	g := NewWithT(t)
	subcommands := []Subcommand{{Name: "prune"}, {Name: "water"}}
	for _, args := range [][]string{nil, {"--config=x"}, {"harvest"}, {"--config", "water"}} {
		chosen, _ := choose(subcommands, args)
		g.Expect(chosen).To(BeNil(), "%v", args)
	}
	chosen, rest := choose(subcommands, []string{"water", "-f", "x"})
	g.Expect(chosen).To(BeIdenticalTo(&subcommands[1]))
	g.Expect(rest).To(Equal([]string{"-f", "x"}))
}

func TestHelpListsSubcommands(t *testing.T) {
	g := NewWithT(t)
	program := gardener()
	g.Expect(newFlags(program).usage(program)).NotTo(ContainSubstring("Subcommands"))
	program.Subcommands = []Subcommand{{Name: "water", Purpose: "give the trees to drink"}}
	g.Expect(newFlags(program).usage(program)).
		To(ContainSubstring("\nSubcommands (each explains itself with --help):\n  water               give the trees to drink\n"))
}

// An error with an exit code still contains its cause.
func TestExitErrorsCanBeLookedInto(t *testing.T) {
	g := NewWithT(t)
	cause := errors.New("no water")
	g.Expect(errors.Is(Exit(3, cause), cause)).To(BeTrue())
	g.Expect(Exit(3, cause).Error()).To(Equal("no water"))
	g.Expect(Exit(3, nil).Error()).To(Equal("exit code 3"))
}
