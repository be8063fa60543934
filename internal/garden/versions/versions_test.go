package versions

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/version"
)

func read(t *testing.T, text string) Kubernetes {
	t.Helper()
	k, err := ParseKubernetes(text)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return k
}

func TestVersions(t *testing.T) {
	g := NewWithT(t)
	for _, text := range []string{"1.36", "v1.36.1", "1.36.1", "1.36.0-rc.1+build"} {
		k := read(t, text)
		g.Expect(k.Supported()).To(BeTrue(), text)
		g.Expect(k.AtLeast(36)).To(BeTrue(), text)
		g.Expect(k.AtLeast(37)).To(BeFalse(), text)
		g.Expect(k.String()).To(Equal(text))
	}
	for _, text := range []string{"1.31.9", "1.37.0", "2.32.0", "0.36.0", "1.3", "1.320.0"} {
		g.Expect(read(t, text).Supported()).To(BeFalse(), text)
	}
	for _, text := range []string{"", "1", "one", "1.36.1.2", "1.36.01", "-1.36", "1.36.1 "} {
		_, err := ParseKubernetes(text)
		g.Expect(err).To(MatchError(ContainSubstring("parse version \""+text+"\" of Kubernetes")), text)
	}
	g.Expect(KubernetesOf(version.MustParseSemantic("1.36.1"))).To(Equal(read(t, "1.36.1")))
	g.Expect(KubernetesOf(nil)).To(Equal(Kubernetes{}))
	g.Expect(Kubernetes{}.Supported()).To(BeFalse())
	g.Expect(Kubernetes{}.AtLeast(0)).To(BeFalse())
	g.Expect(read(t, "2.0.0").AtLeast(36)).To(BeTrue())
	g.Expect(read(t, "0.40.0").AtLeast(36)).To(BeFalse())
	g.Expect(SupportedKubernetes()).To(BeComparableTo([]string{"1.32", "1.33", "1.34", "1.35", "1.36"}))
}

func TestOrderOfVersions(t *testing.T) {
	for sentence, tc := range map[string]struct {
		from, to    string
		less, skips bool
	}{
		"the same":                 {from: "1.35.1", to: "1.35.1"},
		"a later patch":            {from: "1.35.1", to: "1.35.2"},
		"an earlier patch":         {from: "1.35.2", to: "1.35.1", less: true},
		"the next minor":           {from: "1.35.9", to: "1.36.0"},
		"two minors on":            {from: "1.34.1", to: "1.36.0", skips: true},
		"the minor before":         {from: "1.36.0", to: "1.35.9", less: true},
		"the next major":           {from: "1.36.0", to: "2.0.0", skips: true},
		"the major before":         {from: "2.0.0", to: "1.36.0", less: true},
		"without patch to patch 0": {from: "1.36", to: "1.36.0"},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			from, to := read(t, tc.from), read(t, tc.to)
			g.Expect(to.LessThan(from)).To(Equal(tc.less))
			g.Expect(to.SkipsMinor(from)).To(Equal(tc.skips))
		})
	}
}

func TestTablesHaveAColumnForEveryVersion(t *testing.T) {
	for name, table := range map[string]map[string]entry{
		"apis": tables().apis, "feature gates": tables().featureGates, "plugins": tables().plugins,
	} {
		g := NewWithT(t)
		g.Expect(len(table)).To(BeNumerically(">", 40), name)
		for key, found := range table {
			g.Expect(found.columns).To(HaveLen(len(supported)), key)
			allowed := "+-"
			if name == "feature gates" {
				allowed = "tfTF-"
			}
			g.Expect(strings.Trim(found.columns, allowed)).To(BeEmpty(), key)
			g.Expect(strings.Trim(found.columns, "-")).NotTo(BeEmpty(), key)
			g.Expect(found.mark).To(Or(BeEmpty(), Equal("generic")), key)
		}
	}
}

func TestFeatureGatesOfKubernetes(t *testing.T) {
	for sentence, tc := range map[string]struct {
		version, name string
		gate          FeatureGate
		knowledge     Knowledge
	}{
		"on": {
			version: "1.33.1", name: "StructuredAuthenticationConfiguration", gate: FeatureGate{Default: true}, knowledge: Present,
		},
		"locked": {
			version: "1.34.1", name: "StructuredAuthenticationConfiguration", gate: FeatureGate{Default: true, Locked: true}, knowledge: Present,
		},
		"off":                      {version: "1.32.1", name: "AllAlpha", knowledge: Present},
		"gone":                     {version: "1.36.1", name: "StructuredAuthorizationConfiguration", knowledge: Elsewhere},
		"of no version":            {version: "1.36.1", name: "HVPA"},
		"of an unknown version":    {version: "1.31.1", name: "AllAlpha", knowledge: Elsewhere},
		"of a comment":             {version: "1.36.1", name: "#"},
		"a locked one that is off": {version: "1.32.1", name: "AllowServiceLBStatusOnNonLB", gate: FeatureGate{Locked: true}, knowledge: Present},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			gate, knowledge := read(t, tc.version).FeatureGate(tc.name)
			g.Expect(gate).To(Equal(tc.gate))
			g.Expect(knowledge).To(Equal(tc.knowledge))
		})
	}
}

func TestPluginsAndAPIsOfKubernetes(t *testing.T) {
	g := NewWithT(t)
	g.Expect(read(t, "1.36.1").AdmissionPlugin("PodGroupProtection")).To(Equal(Present))
	g.Expect(read(t, "1.35.1").AdmissionPlugin("PodGroupProtection")).To(Equal(Elsewhere))
	g.Expect(read(t, "1.35.1").AdmissionPlugin("PodSecurityPolicy")).To(Equal(Unknown))
	g.Expect(read(t, "1.36.1").API("v1")).To(Equal(Present))
	g.Expect(read(t, "1.36.1").API("v1/pods")).To(Equal(Present))
	g.Expect(read(t, "1.36.1").API("resource.k8s.io/v1")).To(Equal(Present))
	g.Expect(read(t, "1.33.1").API("resource.k8s.io/v1")).To(Equal(Elsewhere))
	g.Expect(read(t, "1.36.1").API("apps/v1/pods")).To(Equal(Unknown))
}

func TestSettingsOfKubeAPIServer(t *testing.T) {
	for setting, columns := range kubeAPIServerSettings {
		NewWithT(t).Expect(columns).To(HaveLen(len(supported)), string(setting))
	}
	for sentence, tc := range map[string]struct {
		version string
		want    bool
	}{
		"before":           {version: "1.33.9"},
		"from":             {version: "1.34.0", want: true},
		"the last version": {version: "1.36.3", want: true},
		"a later version":  {version: "1.37.0"},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(read(t, tc.version).Has(AuthorizerCacheSwitches)).To(Equal(tc.want))
		})
	}
	g := NewWithT(t)
	g.Expect(read(t, "1.34.9").Has(DefaultWatchCacheSize)).To(BeTrue())
	g.Expect(read(t, "1.35.0").Has(DefaultWatchCacheSize)).To(BeFalse())
	g.Expect(read(t, "1.36.0").Has("other")).To(BeFalse())
}

func TestFeatureGatesOfGardener(t *testing.T) {
	for sentence, tc := range map[string]struct {
		component Component
		name      string
		gate      FeatureGate
		known     bool
	}{
		"of gardener-apiserver": {
			component: GardenerAPIServer, name: "CloudProfileCapabilities", gate: FeatureGate{Default: true}, known: true,
		},
		"of every API server": {
			component: GardenerAPIServer, name: "APIServerTracing", gate: FeatureGate{Default: true, Locked: true}, known: true,
		},
		"of kube-apiserver only":                  {component: GardenerAPIServer, name: "PodAndContainerStatsFromCRI"},
		"of gardener-controller-manager":          {component: GardenerControllerManager, name: "DisableNginxIngressInShoot", known: true},
		"of API servers, elsewhere":               {component: GardenerControllerManager, name: "AllAlpha"},
		"of gardener-apiserver, in the scheduler": {component: GardenerScheduler, name: "CloudProfileCapabilities"},
		"retired": {component: GardenerAPIServer, name: "HVPA"},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			gate, known := GardenerFeatureGate(tc.component, tc.name)
			g.Expect(gate).To(Equal(tc.gate))
			g.Expect(known).To(Equal(tc.known))
			g.Expect(tc.component.TakesGate(tc.name, tc.gate.Default)).To(Equal(tc.known))
			g.Expect(tc.component.TakesGate(tc.name, !tc.gate.Default)).To(Equal(tc.known && !tc.gate.Locked))
		})
	}
}

func TestNothingIsBothKnownAndRetired(t *testing.T) {
	g := NewWithT(t)
	g.Expect(slices.IsSorted(GardenerAdmissionPlugins())).To(BeTrue())
	for _, name := range GardenerAdmissionPlugins() {
		g.Expect(RetiredGardenerAdmissionPlugin(name)).To(BeFalse(), name)
	}
	g.Expect(RetiredGardenerAdmissionPlugin("ProjectValidator")).To(BeTrue())
	for component := range gardenerFeatureGates {
		for name := range gardenerFeatureGates[component] {
			g.Expect(RetiredGardenerFeatureGate(name)).To(BeFalse(), name)
		}
	}
	g.Expect(RetiredGardenerFeatureGate("HVPA")).To(BeTrue())
	g.Expect(RetiredGardenerFeatureGate("AllAlpha")).To(BeFalse())
	g.Expect(VPAFeatureGate("InPlace")).To(BeTrue())
	g.Expect(VPAFeatureGate("InPlaceOrRecreate")).To(BeFalse())
	g.Expect(RetiredVPAFeatureGate("InPlaceOrRecreate")).To(BeTrue())
}
