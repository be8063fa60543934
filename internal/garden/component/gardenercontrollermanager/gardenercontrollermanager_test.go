package gardenercontrollermanager_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenercontrollermanager"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// garden returns values with settings in YAML.
func garden(t *testing.T, settings string, changes ...func(*values.Values)) values.Values {
	t.Helper()
	return goldentest.Values(t, func(v *values.Values) any { return &v.GardenerControllerManager }, settings, changes...)
}

func objects(t *testing.T, v values.Values) []client.Object {
	t.Helper()
	own, err := gardenercontrollermanager.Objects(v, "generic-token-kubeconfig-1")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return append(append(own.Direct, own.Set...), gardenercontrollermanager.VirtualObjects(false)...)
}

const configured = `
logLevel: error
featureGates: {DisableNginxIngressInShoot: true, HVPA: true}
defaultProjectQuotas:
- config: {apiVersion: v1, kind: ResourceQuota, spec: {hard: {count/shoots.core.gardener.cloud: "10", count/secrets: 400}}}
  projectSelector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: NotIn, values: [d]}]}
- config: {apiVersion: v1, kind: ResourceQuota, metadata: {labels: {e: f}}, spec: {hard: {count/shoots.core.gardener.cloud: "100"}}}
`

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	goldentest.Compare(t, "plain", map[string][]client.Object{
		"plain": objects(t, garden(t, "{}")),
		// High availability and routing that is aware of the topology change nothing here.
		"ha-topology":        objects(t, garden(t, "{}", func(v *values.Values) { v.HighAvailability, v.TopologyAwareRouting = true, true })),
		"own-vpa":            objects(t, garden(t, "{}", func(v *values.Values) { v.VerticalPodAutoscaler = false })),
		"configured":         objects(t, garden(t, configured)),
		"project-controller": append(objects(t, garden(t, "{}")), gardenercontrollermanager.VirtualObjects(true)[2:]...),
	})
}

func TestImageIsRequired(t *testing.T) {
	_, err := gardenercontrollermanager.Objects(garden(t, "{}", func(v *values.Values) { v.Images = nil }), "")
	NewWithT(t).Expect(err).To(MatchError(`there is no image "gardener-controller-manager" for this cluster`))
}

func TestPluginThatEnforcesThePolicyMustBeEnabled(t *testing.T) {
	g := NewWithT(t)
	disabled := func(on bool) values.Values {
		return garden(t, "{}", func(v *values.Values) {
			v.ProjectController = on
			v.GardenerAPIServer.AdmissionPlugins = []operatorv1alpha1.AdmissionPlugin{{Name: "ValidatingAdmissionPolicy", Disabled: ptr.To(true)}}
		})
	}
	_, err := gardenercontrollermanager.Objects(disabled(true), "")
	g.Expect(err).To(MatchError(ContainSubstring("spec.virtualCluster.gardener.gardenerAPIServer.admissionPlugins[0] disables " +
		"ValidatingAdmissionPolicy, which keeps gardener-controller-manager from changing Projects")))
	_, err = gardenercontrollermanager.Objects(disabled(false), "")
	g.Expect(err).NotTo(HaveOccurred())
}

func TestFeatureGatesThatGardenerDoesNotHaveAreIgnored(t *testing.T) {
	g := NewWithT(t)
	g.Expect(gardenercontrollermanager.Ignored(garden(t, configured))).To(Equal([]string{"feature gate HVPA"}))
	g.Expect(gardenercontrollermanager.Ignored(garden(t, "{}"))).To(BeEmpty())
}

func TestQuotasThatGardenerCannotReadAreNamed(t *testing.T) {
	const path = "spec.virtualCluster.gardener.gardenerControllerManager.defaultProjectQuotas[1].config must be a ResourceQuota of v1"
	const remedy = "; correct it, or remove the entry"
	for config, want := range map[string]string{
		`{}`:                                 path + `, not a "" of ""` + remedy,
		`{apiVersion: v1, kind: LimitRange}`: path + `, not a "LimitRange" of "v1"` + remedy,
		`{apiVersion: v1, kind: ResourceQuota, spec: {hard: {pods: "many"}}}`: path + ": quantities must match the regular expression ",
		`[a]`: path + ": json: cannot unmarshal array into Go value of type ",
	} {
		t.Run(config, func(t *testing.T) {
			v := garden(t, "{defaultProjectQuotas: [{config: {apiVersion: v1, kind: ResourceQuota}}, {config: "+config+"}]}")
			_, err := gardenercontrollermanager.Objects(v, "")
			NewWithT(t).Expect(err).To(MatchError(HavePrefix(want)))
			NewWithT(t).Expect(err).To(MatchError(HaveSuffix(remedy)))
		})
	}
}
