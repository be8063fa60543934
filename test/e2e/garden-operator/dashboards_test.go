//go:build e2e

package gardenoperator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/deploy"
)

// board contains the fields of a dashboard for Plutono that the spec reads.
type board struct {
	Title  string
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

// boardOf returns the dashboard in a file.
func boardOf(file string) (board, error) {
	b := board{}
	content, err := fs.ReadFile(deploy.Dashboards, file)
	if err != nil {
		return b, err
	}
	if err := json.Unmarshal(content, &b); err != nil {
		return b, fmt.Errorf("decode %s: %w", file, err)
	}
	return b, nil
}

// withoutData returns the queries of a dashboard that have had no data within the last hour, with the titles of their panels.
func withoutData(ctx context.Context, b board) ([]string, error) {
	var missing []string
	for _, p := range b.Panels {
		for _, each := range p.Targets {
			found, err := seriesOverTime(ctx, each.Expr)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.Title, err)
			}
			if found == 0 {
				missing = append(missing, p.Title+": "+each.Expr)
			}
		}
	}
	return missing, nil
}

// seriesOverTime returns the number of series that a query has had within the last hour.
func seriesOverTime(ctx context.Context, query string) (int, error) {
	now := time.Now()
	data := struct{ Result []any }{}
	err := ask(ctx, "prometheus-garden:80", "/api/v1/query_range", url.Values{
		"query": {query}, "step": {"15"},
		"start": {strconv.FormatInt(now.Add(-time.Hour).Unix(), 10)}, "end": {strconv.FormatInt(now.Unix(), 10)},
	}, &data)
	return len(data.Result), err
}

// boards returns the files of all dashboards.
func boards() []string {
	files, _ := fs.Glob(deploy.Dashboards, deploy.DashboardsFolder+"/*.json") // only a malformed pattern is an error
	return files
}

var _ = Describe("dashboards of a Garden", Ordered, ContinueOnFailure, Label("garden", "observability", "dashboards"), func() {
	BeforeAll(requireObservability, NodeTimeout(2*patience))

	for _, each := range boards() {
		It("has data for each query of "+path.Base(each), func(ctx SpecContext) {
			b, err := boardOf(each)
			Expect(err).NotTo(HaveOccurred())
			Eventually(ctx, withoutData).WithArguments(b).WithTimeout(patience).Should(BeEmpty())
		}, SpecTimeout(2*patience))
	}
})
