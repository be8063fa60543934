// Command prometheus checks that the dashboard and the alerts of deploy/observability get data from a running process. It loads scrapes of
// the metrics of the process into a storage of Prometheus, and evaluates every query of the dashboard and every expression of the alerts
// with the engine of Prometheus. `make dashboard-check` runs it:
//
//	prometheus -dashboard FILE -rules FILE SCRAPE...
//
// A SCRAPE is a file with the metrics in the text format. Its time is the time at which the file was written. At least two are required,
// because a rate needs a change between two scrapes. The check fails if a query of the dashboard has no data or cannot be evaluated.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("prometheus", flag.ContinueOnError)
	dashboardFile := flags.String("dashboard", "", "file of the dashboard")
	rulesFile := flags.String("rules", "", "file of the alerts")
	if err = flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() < 2 {
		return errors.New("there must be at least 2 scrapes: a rate needs two samples")
	}
	board, err := readDashboard(*dashboardFile)
	if err != nil {
		return err
	}
	alerts, err := readAlerts(*rulesFile)
	if err != nil {
		return err
	}
	store, err := openStore()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.close()) }()
	for _, file := range flags.Args() {
		if err := store.load(ctx, file); err != nil {
			return fmt.Errorf("read metrics of %s: %w", file, err)
		}
	}
	return report(ctx, store, board, alerts, out)
}
