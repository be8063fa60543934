package garden

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
)

func TestTheConfigurationOrTheEnvironmentSaysWhereWebhooksAreReached(t *testing.T) {
	for name, tc := range map[string]struct {
		url, mode, host string
		want, err       string
	}{
		"by the Service":                  {},
		"by the Service, explicitly":      {mode: "service", host: "ignored"},
		"by the URL of the configuration": {url: "https://a:1", mode: "url", host: "b:2", want: "https://a:1"},
		"by the host of the environment":  {mode: "url", host: "b:2", want: "https://b:2"},
		"by the DNS name of the Service":  {mode: "url-service", want: "https://web.own.svc:443"},
		"by a host that the environment lacks": {
			mode: "url", err: `WEBHOOK_MODE is "url": WEBHOOK_URL must be the host, or host and port, of the webhooks`,
		},
		"by a mode that does not exist is refused": {mode: "mail", err: `WEBHOOK_MODE must be service, url or url-service, not "mail"`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := addressOf(config.EspalierSelfManagedWebhooks{URL: tc.url, ServiceName: "web"}, "own", func(name string) string {
				return map[string]string{"WEBHOOK_MODE": tc.mode, "WEBHOOK_URL": tc.host}[name]
			})
			g.Expect(got).To(Equal(tc.want))
			if tc.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(tc.err))
		})
	}
}
