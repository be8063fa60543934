package skew_test

import (
	"testing"

	. "github.com/onsi/gomega"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/skew"
)

func garden(version string) operatorv1alpha1.Garden {
	return operatorv1alpha1.Garden{Status: operatorv1alpha1.GardenStatus{Gardener: &operatorv1alpha1.OperatorIdentity{Version: version}}}
}

func TestCheck(t *testing.T) {
	downgrade := func(old, own string) string {
		return "downgrading Gardener is not supported (old version was " + old + ", my version is " + own + "), start a version that is not " +
			"earlier"
	}
	skip := func(old, own string) string {
		return "skipping Gardener versions is unsupported (old version was " + old + ", my version is " + own + "), upgrade one minor version " +
			"at a time"
	}
	for name, tc := range map[string]struct {
		gardens []operatorv1alpha1.Garden
		own     string
		want    string // "" allows
	}{
		"no Garden":                             {own: "nonsense"},
		"a Garden that has not been reconciled": {gardens: []operatorv1alpha1.Garden{{}}, own: "nonsense"},
		"two Gardens": {
			gardens: []operatorv1alpha1.Garden{{}, {}}, own: "v1.2.3", want: "expected at most one Garden but got 2",
		},
		"the same version":                  {gardens: []operatorv1alpha1.Garden{garden("v1.2.3")}, own: "v1.2.3"},
		"the same version without v":        {gardens: []operatorv1alpha1.Garden{garden("v1.2.3")}, own: "1.2.3"},
		"a pre-release of the same version": {gardens: []operatorv1alpha1.Garden{garden("v1.2.3")}, own: "v1.2.3-dev"},
		"the release after its pre-release": {gardens: []operatorv1alpha1.Garden{garden("v1.2.3-dev")}, own: "v1.2.3"},
		"a later patch of the next minor":   {gardens: []operatorv1alpha1.Garden{garden("v1.2.3")}, own: "v1.3.9"},
		"two minors later": {
			gardens: []operatorv1alpha1.Garden{garden("v1.2.3")}, own: "v1.4.0", want: skip("v1.2.3", "v1.4.0"),
		},
		"a pre-release two minors later": {
			gardens: []operatorv1alpha1.Garden{garden("v1.2.3")}, own: "v1.4.0-dev", want: skip("v1.2.3", "v1.4.0-dev"),
		},
		"the next major": {
			gardens: []operatorv1alpha1.Garden{garden("v1.2.3")}, own: "v2.0.0", want: skip("v1.2.3", "v2.0.0"),
		},
		"an earlier patch": {
			gardens: []operatorv1alpha1.Garden{garden("v1.2.3")}, own: "v1.2.2", want: downgrade("v1.2.3", "v1.2.2"),
		},
		"an earlier minor": {
			gardens: []operatorv1alpha1.Garden{garden("v1.10.0")}, own: "v1.9.9", want: downgrade("v1.10.0", "v1.9.9"),
		},
		"an old version that cannot be parsed": {
			gardens: []operatorv1alpha1.Garden{garden("old")}, own: "v1.2.3",
			want: `failed parsing old Garden version "old": could not parse "old" as version`,
		},
		"an own version that cannot be parsed": {
			gardens: []operatorv1alpha1.Garden{garden("v1.2.3")}, own: "own",
			want: `failed comparing versions for downgrade check: could not parse "own" as version`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := skew.Check(tc.gardens, tc.own)
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(tc.want))
		})
	}
}
