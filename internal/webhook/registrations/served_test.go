package registrations_test

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/registrations"
)

// TestWebhooksHaveTheNamesAndPathsOfGardener checks the names too, because metrics and logs contain them.
func TestWebhooksHaveTheNamesAndPathsOfGardener(t *testing.T) {
	t.Parallel()
	want := []string{
		"token-invalidator /webhooks/invalidate-service-account-token-secret",
		"projected-token-mount /webhooks/mount-projected-service-account-token",
		"high-availability-config /webhooks/high-availability-config",
		"pod-scheduler-name /webhooks/default-pod-scheduler-name",
		"seccomp-profile /webhooks/seccomp-profile",
		"kubernetes-service-host /webhooks/kubernetes-service-host",
		"endpoint-slice-hints /webhooks/endpoint-slice-hints",
		"pod-topology-spread-constraints /webhooks/pod-topology-spread-constraints",
		"crd-deletion-protection /webhooks/validate-crd-deletion",
		"cr-deletion-protection /webhooks/validate-crd-deletion", // the same handler
	}
	var declared []string
	for _, webhook := range registrations.Enabled("standalone", registrations.Everything(), registrations.Own{}) {
		declared = append(declared, strings.TrimSuffix(webhook.Name, ".resources.gardener.cloud")+" "+webhook.Path)
	}
	validations := slices.IndexFunc(declared, func(line string) bool { return strings.HasPrefix(line, "validation.") })
	NewWithT(t).Expect(declared[:validations]).To(HaveExactElements(want))

	onlyShoots := config.Webhooks{SystemComponentsConfig: config.SystemComponentsConfigWebhook{Enabled: true}}
	shoot := registrations.Enabled(config.FlavorGardenerShoot, onlyShoots, registrations.Own{})[0]
	NewWithT(t).Expect([]string{shoot.Name, shoot.Path}).
		To(Equal([]string{"system-components-config.resources.gardener.cloud", "/webhooks/system-components-config"}))
}
