package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
)

// Both files are as gardenlet v1.149.3 writes them, with the names of a Shoot of a local garden.
const (
	workerless = "testdata/workerless.yaml"
	workers    = "testdata/workers.yaml"
)

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(data)
}

func loaded(t *testing.T, file string) (cfg *configuration, warnings []string) {
	t.Helper()
	g := NewWithT(t)
	cfg, found, err := load([]byte(file))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cfg.Validate()).To(BeEmpty())
	for _, each := range found {
		warnings = append(warnings, each.String())
	}
	return cfg, warnings
}

// delay, authorizer and autoscalers are the sections that gardenlet enables for each Shoot.
const (
	delay = "controllers.nodeAgentReconciliationDelay: not supported: all gardener-node-agents of a Shoot apply a new operating system " +
		"configuration at the same time"
	authorizer = "webhooks.nodeAgentAuthorizer: not supported: the API server denies the requests of gardener-node-agents, so the Shoot " +
		"must have no workers"
	autoscalers = "webhooks.vpaInPlaceUpdates: not supported: the API server refuses VerticalPodAutoscalers in kube-system and " +
		"kubernetes-dashboard, if the Shoot serves that kind"
)

func TestEnabledSectionsThatAreNotServedAreNamed(t *testing.T) {
	aliases := []string{
		"controllers.csrApprover: read as controllers.kubeletCSRApprover",
		"controllers.nodeCriticalComponents: read as controllers.node",
	}
	for name, tc := range map[string]struct {
		file string
		want []string
	}{
		"a Shoot without workers": {file: read(t, workerless), want: append(aliases, delay, authorizer, autoscalers)},
		"a Shoot with workers":    {file: read(t, workers), want: append(aliases, delay, authorizer, autoscalers)},
		"sections of a seed": {
			file: head + "controllers: {networkPolicy: {enabled: true}, istioClusterConfiguration: {enabled: true}}\n" +
				"webhooks: {podKubeAPIServerLoadBalancing: {enabled: true}}",
			want: []string{
				"controllers.istioClusterConfiguration: not supported: Istio gets no ServiceEntries and DestinationRules for load balancing of " +
					"API servers on layer 7",
				"controllers.networkPolicy: not supported: no NetworkPolicies are derived from Services: run netpol-controller",
				"webhooks.podKubeAPIServerLoadBalancing: not supported: Pods do not use the load balancing of API servers on layer 7",
			},
		},
		"a section of a later release": {
			file: head + "webhooks: {futureHandler: {enabled: true}, vpaInPlaceUpdates: {enabled: false}}",
			want: []string{"webhooks.futureHandler: unknown field, ignored"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, got := loaded(t, tc.file)
			NewWithT(t).Expect(got).To(ConsistOf(tc.want))
		})
	}
}

const head = "apiVersion: resourcemanager.config.gardener.cloud/v1alpha1\nkind: ResourceManagerConfiguration\n" +
	"leaderElection: {resourceNamespace: garden}\n"

func TestStrictModeRefusesSectionsThatAreNotServed(t *testing.T) {
	g := NewWithT(t)
	_, warnings, err := load([]byte(read(t, workerless)))
	g.Expect(err).NotTo(HaveOccurred())
	for _, each := range warnings {
		g.Expect(each.Mistake).To(Equal(strings.Contains(each.Message, "not supported")), each.String())
	}
}

func TestThePageNamesEverySectionThatIsNotServed(t *testing.T) {
	page := read(t, "../../docs/gardener-resource-manager.md")
	for _, each := range sectionsNotServed() {
		NewWithT(t).Expect(page).To(ContainSubstring("| `"+each.path()+"` | "+each.effect+" |"), "a row of a table")
	}
}

func TestTheConfigurationOfAChild(t *testing.T) {
	g := NewWithT(t)
	cfg, _ := loaded(t, read(t, workers))
	data, err := cfg.forChild(1111, 2222)
	g.Expect(err).NotTo(HaveOccurred())
	for _, each := range sectionsNotServed() {
		section := each.fields[1]
		g.Expect(string(data)).NotTo(ContainSubstring(section), "each child would warn of it")
	}
	of, warnings, err := config.ResourceManager(data)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(warnings).To(HaveLen(2), "%v", warnings)
	g.Expect(of.Validate()).To(BeEmpty())
	g.Expect(*of.LeaderElection.LeaderElect).To(BeFalse())
	g.Expect(*of.Server.HealthProbes).To(Equal(config.Endpoint{BindAddress: "127.0.0.1", Port: 1111}))
	g.Expect(*of.Server.Metrics).To(Equal(config.Endpoint{BindAddress: "127.0.0.1", Port: 2222}))
	g.Expect(*of.Espalier.Token.Class).To(Equal("shoot"))

	// All other settings are as in the file.
	of.LeaderElection.LeaderElect, of.Espalier.Token.Class = cfg.LeaderElection.LeaderElect, nil
	of.Server.HealthProbes, of.Server.Metrics = cfg.Server.HealthProbes, cfg.Server.Metrics
	g.Expect(of).To(BeComparableTo(cfg.ResourceManagerConfiguration))
}

// An empty list of restrictions allows nothing; without the list, everything is allowed.
func TestAChildKeepsEmptyRestrictionsAndItsClass(t *testing.T) {
	g := NewWithT(t)
	cfg, _ := loaded(t, head+"server: null\nespalier: {managedResource: {namespaces: {sets: []}}, token: {class: seed}}")
	data, err := cfg.forChild(1, 2)
	g.Expect(err).NotTo(HaveOccurred())
	var got map[string]any
	g.Expect(json.Unmarshal(data, &got)).To(Succeed())
	g.Expect(got["espalier"]).To(BeComparableTo(map[string]any{
		"managedResource": map[string]any{"namespaces": map[string]any{"sets": []any{}}}, "token": map[string]any{"class": "seed"},
	}))
}
