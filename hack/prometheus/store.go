package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
)

// store contains samples as Prometheus would have scraped them, and evaluates queries at the time of the last scrape.
type store struct {
	db     *tsdb.DB
	engine *promql.Engine
	folder string
	last   time.Time
}

// targetLabels returns the labels that service discovery adds to each sample.
func targetLabels() labels.Labels {
	return labels.FromStrings("namespace", "espalier-system", "job", "managedresource-controller", "instance", "local",
		"pod", "managedresource-controller-0")
}

func openStore() (*store, error) {
	folder, err := os.MkdirTemp("", "espalier-dashboard-")
	if err != nil {
		return nil, fmt.Errorf("create folder for samples: %w", err)
	}
	db, err := tsdb.Open(folder, nil, nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open storage: %w", err), os.RemoveAll(folder))
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000_000, Timeout: time.Minute, Parser: newParser()})
	return &store{db: db, engine: engine, folder: folder}, nil
}

func (s *store) close() error {
	return errors.Join(s.engine.Close(), s.db.Close(), os.RemoveAll(s.folder))
}

// load stores the metrics in a file, with the time when the file was written.
func (s *store) load(ctx context.Context, file string) error {
	content, err := os.Open(file)
	if err != nil {
		return err
	}
	defer content.Close()
	written, err := content.Stat()
	if err != nil {
		return err
	}
	text := expfmt.NewTextParser(model.LegacyValidation)
	families, err := text.TextToMetricFamilies(content)
	if err != nil {
		return err
	}
	s.last = written.ModTime()
	options := &expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(s.last.UnixNano())}
	samples, err := expfmt.ExtractSamples(options, slices.Collect(maps.Values(families))...)
	if err != nil {
		return err
	}
	appender := s.db.Appender(ctx)
	for _, sample := range samples {
		series := labels.NewBuilder(labels.EmptyLabels())
		for name, value := range sample.Metric {
			series.Set(string(name), string(value))
		}
		targetLabels().Range(func(each labels.Label) { series.Set(each.Name, each.Value) }) // these labels win, as with service discovery
		if _, err := appender.Append(0, series.Labels(), int64(sample.Timestamp), float64(sample.Value)); err != nil {
			return errors.Join(err, appender.Rollback())
		}
	}
	return appender.Commit()
}

// series evaluates the expression and returns the labels of each series with a number. NaN does not count: it is the quantile of an empty
// histogram.
func (s *store) series(ctx context.Context, expr string) ([]labels.Labels, error) {
	query, err := s.engine.NewInstantQuery(ctx, s.db, nil, expr, s.last)
	if err != nil {
		return nil, err
	}
	defer query.Close()
	result := query.Exec(ctx)
	if result.Err != nil {
		return nil, result.Err
	}
	var found []labels.Labels
	switch value := result.Value.(type) {
	case promql.Vector:
		for _, sample := range value {
			if !math.IsNaN(sample.F) {
				found = append(found, sample.Metric)
			}
		}
	case promql.Scalar:
		found = append(found, labels.EmptyLabels())
	case parser.Value:
		return nil, fmt.Errorf("it gives a %s, which no panel shows", value.Type())
	}
	return found, nil
}

// evaluate evaluates the expression, and returns the metrics in it that have no series.
func (s *store) evaluate(ctx context.Context, expr string) (found []labels.Labels, missing []string, err error) {
	if found, err = s.series(ctx, expr); err != nil {
		return nil, nil, err
	}
	names, err := metricsOf(expr)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if name == "" {
			continue // the selector does not name a metric
		}
		series, err := s.series(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		if len(series) == 0 {
			missing = append(missing, name)
		}
	}
	return found, missing, nil
}

// metricsOf returns the names of the metrics that the expression selects.
func metricsOf(expr string) ([]string, error) {
	parsed, err := newParser().ParseExpr(expr)
	if err != nil {
		return nil, err
	}
	var names []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			names = append(names, selector.Name)
		}
		return nil
	})
	return names, nil
}

// newParser returns a parser with the syntax of a Prometheus without feature flags.
func newParser() parser.Parser { return parser.NewParser(parser.Options{}) }
