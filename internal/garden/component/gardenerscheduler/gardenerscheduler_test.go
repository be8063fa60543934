package gardenerscheduler_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerscheduler"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// garden returns values with settings in YAML.
func garden(t *testing.T, settings string, changes ...func(*values.Values)) values.Values {
	t.Helper()
	return goldentest.Values(t, func(v *values.Values) any { return &v.GardenerScheduler }, settings, changes...)
}

func objects(t *testing.T, v values.Values) []client.Object {
	t.Helper()
	strategy, _ := gardenerscheduler.Strategy(v, nil)
	own, err := gardenerscheduler.Objects(v, "generic-token-kubeconfig-1", strategy)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return append(append(own.Direct, own.Set...), gardenerscheduler.VirtualObjects()...)
}

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	goldentest.Compare(t, "plain", map[string][]client.Object{
		"plain": objects(t, garden(t, "{}")),
		// High availability and routing that is aware of the topology change nothing here.
		"ha-topology": objects(t, garden(t, "{}", func(v *values.Values) { v.HighAvailability, v.TopologyAwareRouting = true, true })),
		"own-vpa":     objects(t, garden(t, "{}", func(v *values.Values) { v.VerticalPodAutoscaler = false })),
		"configured":  objects(t, garden(t, "{logLevel: debug, strategy: MinimalDistance, featureGates: {HVPA: true}}")),
	})
}

func TestImageIsRequired(t *testing.T) {
	_, err := gardenerscheduler.Objects(garden(t, "{}", func(v *values.Values) { v.Images = nil }), "", "")
	NewWithT(t).Expect(err).To(MatchError(`there is no image "gardener-scheduler" for this cluster`))
}

func TestFeatureGatesThatGardenerDoesNotHaveAreIgnored(t *testing.T) {
	NewWithT(t).Expect(gardenerscheduler.Ignored(garden(t, "{featureGates: {HVPA: true}}"))).To(Equal([]string{"feature gate HVPA"}))
}

func TestStrategy(t *testing.T) {
	with := func(text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{Data: map[string]string{"schedulerconfiguration.yaml": text}}
	}
	former := with("schedulers: {shoot: {candidateDeterminationStrategy: MinimalDistance}}")
	for sentence, tc := range map[string]struct {
		settings string
		live     *corev1.ConfigMap
		want     operatorv1alpha1.SchedulingStrategy
		kept     bool
	}{
		"a new Garden":                           {settings: "{}", want: "SameRegion"},
		"a Garden of Gardener before 1.145":      {settings: "{}", live: former, want: "MinimalDistance", kept: true},
		"a Garden that decides":                  {settings: "{strategy: SameRegion}", live: former, want: "SameRegion"},
		"a Garden that decides for the distance": {settings: "{strategy: MinimalDistance}", want: "MinimalDistance"},
		"another strategy": {
			settings: "{}", live: with("schedulers: {shoot: {candidateDeterminationStrategy: Other}}"), want: "SameRegion",
		},
		"a malformed file": {settings: "{}", live: with("["), want: "SameRegion"},
	} {
		t.Run(sentence, func(t *testing.T) {
			strategy, kept := gardenerscheduler.Strategy(garden(t, tc.settings), tc.live)
			NewWithT(t).Expect(strategy).To(Equal(tc.want))
			NewWithT(t).Expect(kept).To(Equal(tc.kept))
		})
	}
}
