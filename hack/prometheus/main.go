// Command prometheus checks that the dashboard and the alerts of deploy/observability get data from a running process. It scrapes the
// metrics of the process several times, loads them into Prometheus' own storage, and evaluates every query of the dashboard and every
// expression of the alerts with Prometheus' own engine. `make dashboard-check` runs it:
//
//	prometheus [flags] [-- COMMAND [ARGUMENT...]]
//
// COMMAND runs after the first scrape. It should cause work for the process, because a rate needs a change between two scrapes. The check
// fails if a query of the dashboard has no data or cannot be evaluated.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// options are the values of the command line.
type options struct {
	metrics, dashboard, rules string
	scrapes                   int
	interval                  time.Duration
	command                   []string
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	cancel()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func readOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("prometheus", flag.ContinueOnError)
	flags.StringVar(&o.metrics, "metrics", "http://127.0.0.1:8080/metrics", "address of the metrics")
	flags.StringVar(&o.dashboard, "dashboard", "", "file of the dashboard")
	flags.StringVar(&o.rules, "rules", "", "file of the alerts")
	flags.IntVar(&o.scrapes, "scrapes", 4, "how often to read the metrics, at least 2")
	flags.DurationVar(&o.interval, "interval", time.Second, "pause between two scrapes")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if o.scrapes < 2 {
		return options{}, errors.New("-scrapes must be at least 2: a rate needs two samples")
	}
	o.command = flags.Args()
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := readOptions(args)
	if err != nil {
		return err
	}
	board, err := readDashboard(o.dashboard)
	if err != nil {
		return err
	}
	alerts, err := readAlerts(o.rules)
	if err != nil {
		return err
	}
	store, err := openStore()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.close()) }()
	if err := collect(ctx, o, store, out); err != nil {
		return err
	}
	return report(ctx, store, board, alerts, out)
}

// collect fills the store.
func collect(ctx context.Context, o options, store *store, out io.Writer) error {
	_, _ = fmt.Fprintf(out, "reading %s %d times\n", o.metrics, o.scrapes)
	for i := range o.scrapes {
		if i == 1 && len(o.command) > 0 {
			command := exec.CommandContext(ctx, o.command[0], o.command[1:]...)
			command.Stdout, command.Stderr = out, out
			if err := command.Run(); err != nil {
				return fmt.Errorf("run %s: %w", o.command[0], err)
			}
		}
		if i > 0 {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(o.interval):
			}
		}
		content, contentType, err := scrape(ctx, o.metrics)
		if err != nil {
			return err
		}
		if err := store.add(ctx, content, contentType, time.Now()); err != nil {
			return fmt.Errorf("read metrics of %s: %w", o.metrics, err)
		}
	}
	return nil
}

// scrape reads the metrics in the text format.
func scrape(ctx context.Context, url string) (content []byte, contentType string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, "", err
	}
	request.Header.Set("Accept", "text/plain; version=0.0.4")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, "", fmt.Errorf("read metrics: %w", err)
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return nil, "", fmt.Errorf("read metrics: %s answers %s", url, response.Status)
	}
	content, err = io.ReadAll(response.Body)
	return content, response.Header.Get("Content-Type"), err
}
