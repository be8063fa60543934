package points_test

import (
	"math/rand/v2"
	"os"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/crash/harness"
	"github.com/espalier-dev/espalier/test/crash/scenarios"
)

func TestCrashPointsLeaveNothingBehindAndTakeNothingAway(t *testing.T) {
	g, sample := NewWithT(t), harness.Number(t, "CRASH_SAMPLE", 36)
	dry := 1
	if sample == 0 {
		dry = 2
	}
	suite := scenarios.NewSuite(t, os.Getenv("CRASH_SCENARIO"))
	suite.References(t.Context(), dry)
	g.Expect(suite.Failures()).To(BeZero())
	random := rand.New(rand.NewPCG(uint64(harness.Number(t, "CRASH_SEED", 1)), 1))
	points := suite.Points(random)
	t.Logf("there are %d crash points", len(points))
	if sample > 0 {
		points = harness.Sample(points, random, sample)
	}
	suite.Execute(t.Context(), points)
	t.Log("\n" + suite.Table())
	g.Expect(suite.Failures()).To(BeZero())

	runs := suite.RandomRuns(random, harness.Number(t, "CRASH_RANDOM", 6))
	made := suite.Execute(t.Context(), runs)
	t.Logf("crash runs with full concurrency: %d tried, %d passed, the process was cut off %d times", len(runs), len(runs)-suite.Failures(),
		made)
	g.Expect(suite.Failures()).To(BeZero())
}
