package serving

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
)

func TestWhereTheServerIsReached(t *testing.T) {
	for name, tc := range map[string]struct {
		url     string
		env     string
		hosts   []string
		outside string
	}{
		"by its Service": {"", "", []string{"web-hooks.own.svc", "web-hooks.own.svc.cluster.local"}, "web-hooks.own.svc:443"},
		"by its Service, which was there before the Pod": {
			"", "10.0.0.9", []string{"web-hooks.own.svc", "web-hooks.own.svc.cluster.local"}, "10.0.0.9:443",
		},
		"by a URL":              {"https://10.0.0.1:9449", "10.0.0.9", []string{"10.0.0.1"}, "10.0.0.1:9449"},
		"by a URL without port": {"https://hooks.example.com", "", []string{"hooks.example.com"}, "hooks.example.com:443"},
		"by an IPv6 address":    {"https://[::1]:9449", "", []string{"::1"}, "[::1]:9449"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			hosts, outside, err := addresses(&config.EspalierSelfManagedWebhooks{
				ServiceName: "web-hooks", URL: tc.url,
			}, "own", func(name string) string {
				return map[string]string{"WEB_HOOKS_SERVICE_HOST": tc.env}[name]
			})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(hosts).To(Equal(tc.hosts))
			g.Expect(outside).To(Equal(tc.outside))
		})
	}
}

func TestWhatCannotBeReachedIsRefusedWithTheSettingToChange(t *testing.T) {
	for name, tc := range map[string]struct {
		clusters process.Clusters
		url      string
		want     string
	}{
		"a process that does not know its namespace": {
			process.Clusters{Same: process.KnownSameness(true)},
			"",
			"a.b: the namespace of this process is not known; set the environment variable POD_NAMESPACE",
		},
		"a Service of another cluster": {
			process.Clusters{OwnNamespace: "own", Same: process.KnownSameness(false)},
			"",
			"a.b: the API server of the target cannot reach a Service of the source; set a.b.url",
		},
		"a URL without a host": {process.Clusters{OwnNamespace: "own", Same: process.KnownSameness(false)}, "https:", "a.b.url: it has no host"},
	} {
		t.Run(name, func(t *testing.T) {
			err := New(Options{}).KeepCertificate(SelfManaged{
				Clusters: &tc.clusters, Settings: &config.EspalierSelfManagedWebhooks{URL: tc.url}, SettingsPath: "a.b",
			})
			NewWithT(t).Expect(err).To(MatchError(tc.want))
		})
	}
}

func TestOwnNamespaceIsExcludedUnlessTheClustersAreKnownToDiffer(t *testing.T) {
	for name, tc := range map[string]struct {
		clusters process.Clusters
		want     string
	}{
		"one cluster":   {process.Clusters{OwnNamespace: "own", Same: process.KnownSameness(true)}, "own"},
		"two clusters":  {process.Clusters{OwnNamespace: "own", Same: process.KnownSameness(false)}, ""},
		"not yet known": {process.Clusters{OwnNamespace: "own", Same: &process.Sameness{}}, "own"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(serviceNamespace(&tc.clusters)).To(Equal(tc.want))
		})
	}
}
