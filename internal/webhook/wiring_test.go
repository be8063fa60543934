package webhook

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
)

func TestWithoutHandlersThereIsNothingToDo(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Check(&config.ResourceManagerConfiguration{})).To(MatchError("nothing to do: set webhooks.<handler>.enabled: true, or do not run webhook-server"))
	g.Expect(Check(&config.ResourceManagerConfiguration{Webhooks: config.Webhooks{SeccompProfile: config.Switch{Enabled: true}}})).To(Succeed())
}

func TestWhereTheServerIsReached(t *testing.T) {
	for name, tc := range map[string]struct {
		url     string
		hosts   []string
		outside string
	}{
		"by its Service":        {"", []string{"hooks.own.svc", "hooks.own.svc.cluster.local"}, "hooks.own.svc:443"},
		"by a URL":              {"https://10.0.0.1:9449", []string{"10.0.0.1"}, "10.0.0.1:9449"},
		"by a URL without port": {"https://hooks.example.com", []string{"hooks.example.com"}, "hooks.example.com:443"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			own := &config.EspalierSelfManagedWebhooks{ServiceName: "hooks", URL: tc.url}
			hosts, err := hostsOf(own, "own")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(hosts).To(Equal(tc.hosts))
			address, err := outside(own, hosts[0])
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(address).To(Equal(tc.outside))
		})
	}
}
