package selfmanaged

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
)

func TestWhereTheServerIsReached(t *testing.T) {
	for name, tc := range map[string]struct {
		url     string
		hosts   []string
		outside string
	}{
		"by its Service":        {"", []string{"hooks.own.svc", "hooks.own.svc.cluster.local"}, "hooks.own.svc:443"},
		"by a URL":              {"https://10.0.0.1:9449", []string{"10.0.0.1"}, "10.0.0.1:9449"},
		"by a URL without port": {"https://hooks.example.com", []string{"hooks.example.com"}, "hooks.example.com:443"},
		"by an IPv6 address":    {"https://[::1]:9449", []string{"::1"}, "[::1]:9449"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			hosts, outside, err := addresses(&config.EspalierSelfManagedWebhooks{ServiceName: "hooks", URL: tc.url}, "own")
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
			process.Clusters{Same: true},
			"",
			"a.b: the namespace of this process is not known; set the environment variable POD_NAMESPACE",
		},
		"a Service of another cluster": {
			process.Clusters{OwnNamespace: "own"},
			"",
			"a.b: the API server of the target cannot reach a Service of the source; set a.b.url",
		},
		"a URL without a host": {process.Clusters{OwnNamespace: "own"}, "https:", "a.b.url: it has no host"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Keep(Options{Clusters: &tc.clusters, Settings: &config.EspalierSelfManagedWebhooks{URL: tc.url}, SettingsPath: "a.b"})
			NewWithT(t).Expect(err).To(MatchError(tc.want))
		})
	}
}
