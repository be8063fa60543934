package config

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestASelfManagedWebhookServerGetsEveryDefault(t *testing.T) {
	g := NewWithT(t)
	c := load(t, minimal+"espalier: {webhooks: {selfManaged: {}}}")
	g.Expect(mistakes(c)).To(BeEmpty())
	g.Expect(c.Espalier.Webhooks).To(BeComparableTo(EspalierWebhooks{
		ShutdownDelay: ptr.To(metav1.Duration{Duration: 2 * time.Second}),
		SelfManaged: &EspalierSelfManagedWebhooks{
			SecretName: "espalier-webhook-server", ConfigurationName: "espalier-webhook-server", ServiceName: "espalier-webhook-server",
			AuthorityValidity:   ptr.To(metav1.Duration{Duration: 8760 * time.Hour}),
			CertificateValidity: ptr.To(metav1.Duration{Duration: 2160 * time.Hour}),
			Flavor:              "standalone",
		},
	}))
}

func TestWebhookSettingsThatCannotBeMeant(t *testing.T) {
	for section, want := range map[string]string{
		"shutdownDelay: 5s": `espalier.webhooks.shutdownDelay: Invalid value: "5s": must be at ` +
			`least 0s and at most 4s`,
		"shutdownDelay: -1s": `espalier.webhooks.shutdownDelay: Invalid value: "-1s": must be ` +
			`at least 0s and at most 4s`,
		"selfManaged: {secretName: A}": `espalier.webhooks.selfManaged.secretName: Invalid value: "A": a ` +
			`lowercase RFC 1123 subdomain`,
		"selfManaged: {configurationName: a_b}": `espalier.webhooks.selfManaged.configurationName: Invalid value: ` +
			`"a_b": a lowercase RFC 1123 subdomain`,
		"selfManaged: {serviceName: a.b}": `espalier.webhooks.selfManaged.serviceName: Invalid value: "a.b": ` +
			`a DNS-1035 label`,
		"selfManaged: {url: 'http://a'}": `espalier.webhooks.selfManaged.url: Invalid value: "http://a": ` +
			`must be https://host:port, without a path`,
		"selfManaged: {url: 'https://a/b'}": `espalier.webhooks.selfManaged.url: Invalid value: "https://a/b": ` +
			`must be https://host:port, without a path`,
		"selfManaged: {url: 'https://:1'}": `espalier.webhooks.selfManaged.url: Invalid value: "https://:1": ` +
			`must be https://host:port, without a path`,
		"selfManaged: {authorityValidity: 1s}": `espalier.webhooks.selfManaged.authorityValidity: Invalid value: ` +
			`"1s": must be at least 1m0s`,
		"selfManaged: {certificateValidity: 0s}": `espalier.webhooks.selfManaged.certificateValidity: Invalid ` +
			`value: "0s": must be at least 1m0s`,
		"selfManaged: {excludedNamespaces: [a, B]}": `espalier.webhooks.selfManaged.excludedNamespaces[1]: Invalid ` +
			`value: "B": a lowercase RFC 1123 label`,
		"selfManaged: {excludedNamespaces: [a], flavor: gardener-shoot}": `espalier.webhooks.selfManaged.excludedNamespaces: Forbidden: ` +
			`only flavor standalone selects namespaces by their names`,
		"selfManaged: {flavor: gardener}": `espalier.webhooks.selfManaged.flavor: Unsupported value: ` +
			`"gardener": supported values: "standalone", "gardener-runtime", "gardener-shoot"`,
	} {
		t.Run(section, func(t *testing.T) {
			NewWithT(t).Expect(validate(t, minimal+"espalier: {webhooks: {"+section+"}}")).To(ConsistOf(HavePrefix(want)))
		})
	}
}
