package shared_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/garden/component/shared"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

func TestFeatureGatesOfAProgram(t *testing.T) {
	g := NewWithT(t)
	wanted := map[string]bool{"CloudProfileCapabilities": false, "APIServerTracing": false, "HVPA": true}
	takes := versions.GardenerAPIServer.TakesGate
	g.Expect(shared.FeatureGates(wanted, takes)).To(Equal(map[string]bool{"CloudProfileCapabilities": false}))
	g.Expect(shared.IgnoredGates(wanted, takes)).To(ConsistOf("feature gate APIServerTracing", "feature gate HVPA"))
	g.Expect(wanted).To(HaveLen(3))
}
