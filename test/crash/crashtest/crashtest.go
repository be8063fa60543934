// Package crashtest creates suites of all scenarios for the tests of test/crash.
package crashtest

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/crash/harness"
	"github.com/espalier-dev/espalier/test/crash/scenarios"
)

// New returns a suite of the scenarios whose names contain one of the texts.
func New(t *testing.T, texts ...string) *harness.Suite {
	t.Helper()
	log.SetLogger(logr.Discard()) // discards the logs of libraries; the controller has its own log
	suite := &harness.Suite{Workers: Number(t, "CRASH_WORKERS", 3), Out: output{t}}
	var one, two *managedresourcetest.Env
	for _, each := range scenarios.All() {
		if !matches(each.Name, texts) {
			continue
		}
		env := &one
		if each.TwoClusters {
			env = &two
		}
		if *env == nil {
			*env = managedresourcetest.New(t, managedresourcetest.Options{Stopped: true, TwoClusters: each.TwoClusters})
		}
		if each.Prepare != nil {
			each.Prepare(*env)
		}
		suite.Add(each, *env)
	}
	NewWithT(t).Expect(suite.Size()).NotTo(BeZero(), "scenarios like %q", texts)
	return suite
}

func matches(name string, texts []string) bool {
	for _, text := range texts {
		if strings.Contains(name, text) {
			return true
		}
	}
	return len(texts) == 0
}

// Number reads an environment variable.
func Number(t *testing.T, variable string, fallback int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return fallback
	}
	value, err := strconv.Atoi(text)
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), variable)
	return value
}

// output writes to the log of a test; several goroutines may use it.
type output struct{ t *testing.T }

// Write implements io.Writer.
func (o output) Write(text []byte) (int, error) {
	o.t.Log(strings.TrimRight(string(text), "\n"))
	return len(text), nil
}
