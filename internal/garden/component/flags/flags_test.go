package flags_test

import (
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/garden/component/flags"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

func TestFeatureGatesOfAProgram(t *testing.T) {
	g := NewWithT(t)
	wanted := map[string]bool{"CloudProfileCapabilities": false, "APIServerTracing": false, "HVPA": true}
	takes := versions.GardenerAPIServer.TakesGate
	g.Expect(flags.FeatureGates(wanted, takes)).To(Equal(map[string]bool{"CloudProfileCapabilities": false}))
	g.Expect(flags.IgnoredGates(wanted, takes)).To(Equal([]string{"feature gate APIServerTracing", "feature gate HVPA"}))
	g.Expect(wanted).To(HaveLen(3))
}

func TestArguments(t *testing.T) {
	takes := func(name string, _ bool) bool { return name != "C" }
	for sentence, tc := range map[string]struct{ got, want []string }{
		"no gates":         {got: flags.GateArgs(nil, takes)},
		"only other gates": {got: flags.GateArgs(map[string]bool{"C": true}, takes)},
		"gates, sorted": {
			got: flags.GateArgs(map[string]bool{"B": true, "C": true, "A": false}, takes), want: []string{"--feature-gates=A=false,B=true"},
		},
		"no optional value": {got: flags.OptionalArg[int32]("--a=%d", nil)},
		"an optional value": {got: flags.OptionalArg("--a=%d", ptr.To[int32](5)), want: []string{"--a=5"}},
		"an optional zero":  {got: flags.OptionalArg("--a=%t", ptr.To(false)), want: []string{"--a=false"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(tc.got).To(Equal(tc.want))
		})
	}
}

func TestNetworks(t *testing.T) {
	g := NewWithT(t)
	g.Expect(flags.Networks(nil)).To(BeEmpty())
	g.Expect(flags.Networks([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/64")})).
		To(Equal("10.0.0.0/8,fd00::/64"))
}
