package managedresource

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/garbagecollector"
)

func TestGarbageCollectorFollowsTheConfiguration(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want garbagecollector.Collector

		period     time.Duration
		parallel   int
		reportOnly bool
	}{
		"defaults": {
			file: "controllers: {garbageCollector: {enabled: true}}",
			want: garbagecollector.Collector{
				Finalizer: "resources.gardener.cloud/gardener-resource-manager", MinimumAge: 10 * time.Minute,
			},
			period: time.Hour, parallel: 32,
		},
		"everything else": {
			file: `
controllers:
  resourceClass: seed
  garbageCollector: {enabled: true, syncPeriod: 2h}
targetClientConnection: {kubeconfig: /target, namespaces: [a, b]}
espalier:
  managedResource: {maxConcurrentRequests: 3, garbageCollectionReportOnly: true}`,
			want: garbagecollector.Collector{
				Finalizer: "resources.gardener.cloud/gardener-resource-manager-seed", MinimumAge: 10 * time.Minute,
				Namespaces: []string{"a", "b"},
			},
			period: 2 * time.Hour, parallel: 3, reportOnly: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cfg, _, err := config.ResourceManager([]byte("apiVersion: resourcemanager.config.gardener.cloud/v1alpha1\n" +
				"kind: ResourceManagerConfiguration\nleaderElection: {leaderElect: false}\n" + tc.file))
			g.Expect(err).NotTo(HaveOccurred())
			got := garbageCollector(cfg)
			g.Expect(got.Config.SyncPeriod.Duration).To(Equal(tc.period))
			g.Expect(*got.Own.MaxConcurrentRequests).To(Equal(tc.parallel))
			g.Expect(*got.Own.GarbageCollectionReportOnly).To(Equal(tc.reportOnly))
			got.Config, got.Own = tc.want.Config, tc.want.Own
			g.Expect(*got).To(Equal(tc.want))
		})
	}
}

func TestSetsThatTheCacheDoesNotHold(t *testing.T) {
	g := NewWithT(t)
	for namespaces, want := range map[string]bool{"": false, "sourceClientConnection: {namespaces: [a]}\n": true} {
		cfg, _, err := config.ResourceManager([]byte("apiVersion: resourcemanager.config.gardener.cloud/v1alpha1\n" +
			"kind: ResourceManagerConfiguration\n" + namespaces))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(unseenSets(true, cfg)).To(Equal(want), namespaces)
		g.Expect(unseenSets(false, cfg)).To(BeFalse(), "sets of another cluster are read from no Secret of this one")
	}
}
