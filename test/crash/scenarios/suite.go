package scenarios

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/crash/harness"
)

// NewSuite returns a suite of the scenarios whose names contain one of the texts.
func NewSuite(t *testing.T, texts ...string) *harness.Suite {
	t.Helper()
	log.SetLogger(logr.Discard()) // discards the logs of libraries; the controller has its own log
	suite := &harness.Suite{Workers: harness.Number(t, "CRASH_WORKERS", 3), Out: t.Output()}
	var one, two *managedresourcetest.Env
	for _, each := range All() {
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(each.Name, text) }) {
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
