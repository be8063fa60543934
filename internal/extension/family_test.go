package extension

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/config"
)

func load(t *testing.T, sections string) *config.GardenletConfiguration {
	t.Helper()
	cfg, _, err := config.Gardenlet([]byte("apiVersion: gardenlet.config.gardener.cloud/v1alpha1\nkind: GardenletConfiguration\n" + sections))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return cfg
}

func TestSettingsComeFromTheFileOfAGardenlet(t *testing.T) {
	own := &rest.Config{Host: "https://garden:6443", BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{
		CAData: []byte("own"), CertData: []byte("secret"), KeyData: []byte("secret"), ServerName: "a",
	}}
	for name, tc := range map[string]struct {
		sections, version string
		want              Settings
	}{
		"defaults": {
			"seedConfig: {metadata: {name: cellar}}", "v1.149.3",
			Settings{
				SeedName: "cellar", GardenerVersion: "v1.149.3", InstallationWorkers: 20, CareWorkers: 5, RequiredWorkers: 1,
				CareSyncPeriod: 30 * time.Second,
				Garden:         &rest.Config{Host: "https://garden:6443", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("own")}},
			},
		},
		"everything": {
			`
seedConfig: {metadata: {name: cellar}}
gardenClientConnection:
  gardenClusterAddress: https://public
  gardenClusterCACert: b3RoZXI=
  kubeconfigSecret: {name: a, namespace: b}
featureGates: {X: true}
controllers:
  controllerInstallation: {concurrentSyncs: 1}
  controllerInstallationCare: {concurrentSyncs: 2, syncPeriod: 1m}
  controllerInstallationRequired: {concurrentSyncs: 3}
espalier:
  extension:
    chartPolicy:
      {kinds: [A], clusterKinds: [B], namespaces: [c], clusterRoles: [d], wildcards: true, escalation: true, webhooks: true,
       hostAccess: true, signatureKeys: [e]}
`, "v1.84.0",
			Settings{
				SeedName: "cellar", GardenerVersion: "v1.84.0", AlwaysInject: true, InstallationWorkers: 1, CareWorkers: 2, RequiredWorkers: 3,
				CareSyncPeriod: time.Minute, FeatureGates: map[string]bool{"X": true},
				KubeconfigSecret: &types.NamespacedName{Namespace: "b", Name: "a"},
				Garden:           &rest.Config{Host: "https://public", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("other")}},
				Policy: chart.Policy{
					Kinds: []string{"A"}, ClusterKinds: []string{"B"}, Namespaces: []string{"c"}, ClusterRoles: []string{"d"},
					Wildcards: true, Escalation: true, Webhooks: true, HostAccess: true, SignatureKeys: []string{"e"},
				},
			},
		},
		"a kubeconfig file, which is not renewed": {
			"gardenClientConnection: {kubeconfig: /k, kubeconfigSecret: {name: a, namespace: b}}", "v1.115.0",
			Settings{
				GardenerVersion: "v1.115.0", InstallationWorkers: 20, CareWorkers: 5, RequiredWorkers: 1, CareSyncPeriod: 30 * time.Second,
				Garden: &rest.Config{Host: "https://garden:6443", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("own")}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := settingsOf(load(t, tc.sections), own, tc.version)
			g := NewWithT(t)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(BeComparableTo(tc.want))
		})
	}
}

func TestAVersionThatIsNoneIsAnError(t *testing.T) {
	_, err := settingsOf(load(t, ""), &rest.Config{}, "latest")
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring(`read version "latest" of Gardener`)))
}
