package projectcontroller_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/garden/component/projectcontroller"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// garden returns values with settings of gardener-controller-manager in YAML.
func garden(t *testing.T, settings string, changes ...func(*values.Values)) values.Values {
	t.Helper()
	image := func(v *values.Values) {
		v.Image = func(binary string) string { return "example.com/" + binary + ":v1" }
	}
	of := func(v *values.Values) any { return &v.GardenerControllerManager }
	return goldentest.Values(t, of, settings, append([]func(*values.Values){image}, changes...)...)
}

func objects(t *testing.T, v values.Values) []client.Object {
	t.Helper()
	g := NewWithT(t)
	own, err := projectcontroller.Objects(v, "generic-token-kubeconfig-1")
	g.Expect(err).NotTo(HaveOccurred())
	virtual, err := projectcontroller.VirtualObjects()
	g.Expect(err).NotTo(HaveOccurred())
	return append(append(own.Direct, own.Set...), virtual...)
}

const configured = `
defaultProjectQuotas:
- config: {apiVersion: v1, kind: ResourceQuota, spec: {hard: {count/shoots.core.gardener.cloud: "10", count/secrets: 400}}}
  projectSelector: {matchLabels: {a: b}}
- config: {apiVersion: v1, kind: ResourceQuota, metadata: {labels: {e: f}}, spec: {hard: {count/shoots.core.gardener.cloud: "100"}}}
`

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	goldentest.Compare(t, "plain", map[string][]client.Object{
		"plain":      objects(t, garden(t, "{}")),
		"own-vpa":    objects(t, garden(t, "{}", func(v *values.Values) { v.VerticalPodAutoscaler = false })),
		"configured": objects(t, garden(t, configured, func(v *values.Values) { v.LogLevel, v.LogFormat = "debug", "text" })),
	})
}

// The process must enforce the same quotas as gardener-controller-manager, which compares them, and must not serve webhooks.
func TestConfigurationHasTheQuotasOfTheGarden(t *testing.T) {
	g := NewWithT(t)
	for _, each := range objects(t, garden(t, configured)) {
		configMap, ok := each.(*corev1.ConfigMap)
		if !ok {
			continue
		}
		c, warnings, err := config.ControllerManager([]byte(configMap.Data["config.yaml"]))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(warnings).To(BeEmpty())
		g.Expect(c.Validate()).To(BeEmpty())
		g.Expect(c.Controllers.Project.Quotas).To(HaveLen(2))
		g.Expect(c.Controllers.Project.Quotas[0].ProjectSelector.MatchLabels).To(Equal(map[string]string{"a": "b"}))
		shoots := c.Controllers.Project.Quotas[1].Config.Spec.Hard["count/shoots.core.gardener.cloud"]
		g.Expect(shoots.String()).To(Equal("100"))
		g.Expect(c.Espalier.Project.StaleDeletion).To(Equal("Delete"), "as gardener-controller-manager does")
		g.Expect(c.Espalier.Project.Webhooks.Served()).To(BeFalse())
		return
	}
	g.Expect("ConfigMap").To(BeNil(), "there is none")
}

// A Deployment whose Pods do not start would be reported after minutes, and without the field that is wrong.
func TestQuotasWithWhichTheProcessDoesNotStartAreErrors(t *testing.T) {
	const at = "spec.virtualCluster.gardener.gardenerControllerManager.defaultProjectQuotas[0]"
	for sentence, quota := range map[string]string{
		"a negative limit": `config: {apiVersion: v1, kind: ResourceQuota, spec: {hard: {count/secrets: "-1"}}}`,
		"an unknown operator": `config: {apiVersion: v1, kind: ResourceQuota}, ` +
			`projectSelector: {matchExpressions: [{key: a, operator: x}]}`,
		"another kind": `config: {apiVersion: v1, kind: ConfigMap}`,
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := projectcontroller.Objects(garden(t, "{defaultProjectQuotas: [{"+quota+"}]}"), "")
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(at)))
		})
	}
}

func TestRowIsDeployedOnlyIfTheOperatorHasTheSetting(t *testing.T) {
	g := NewWithT(t)
	without := garden(t, "{}")
	g.Expect(projectcontroller.Component.Unless(without)).To(HavePrefix("gardener-controller-manager reconciles Projects"))
	with := garden(t, "{}", func(v *values.Values) { v.ProjectController = true })
	g.Expect(projectcontroller.Component.Unless(with)).To(BeEmpty())
}
