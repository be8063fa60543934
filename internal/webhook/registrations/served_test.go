package registrations_test

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/deletionprotection"
	"github.com/espalier-dev/espalier/internal/webhook/endpointslicehints"
	"github.com/espalier-dev/espalier/internal/webhook/highavailability"
	"github.com/espalier-dev/espalier/internal/webhook/registrations"
	"github.com/espalier-dev/espalier/internal/webhook/schedulername"
	"github.com/espalier-dev/espalier/internal/webhook/seccompprofile"
	"github.com/espalier-dev/espalier/internal/webhook/servicehost"
	"github.com/espalier-dev/espalier/internal/webhook/systemcomponents"
	"github.com/espalier-dev/espalier/internal/webhook/tokeninvalidator"
	"github.com/espalier-dev/espalier/internal/webhook/tokenmount"
	"github.com/espalier-dev/espalier/internal/webhook/topologyspread"
)

// TestWebhooksAreNamedAndServedAsTheHandlersSay compares with the constants of the handlers, which metrics and logs show.
func TestWebhooksAreNamedAndServedAsTheHandlersSay(t *testing.T) {
	t.Parallel()
	want := []string{
		tokeninvalidator.Name + " " + tokeninvalidator.Path,
		tokenmount.Name + " " + tokenmount.Path,
		highavailability.Name + " " + highavailability.Path,
		schedulername.Name + " " + schedulername.Path,
		seccompprofile.Name + " " + seccompprofile.Path,
		servicehost.Name + " " + servicehost.Path,
		endpointslicehints.Name + " " + endpointslicehints.Path,
		topologyspread.Name + " " + topologyspread.Path,
		deletionprotection.Name + " " + deletionprotection.Path,
		"cr-deletion-protection " + deletionprotection.Path, // the same handler
	}
	var declared []string
	for _, webhook := range registrations.Enabled("standalone", registrations.Everything(), registrations.Own{}) {
		declared = append(declared, strings.TrimSuffix(webhook.Name, ".resources.gardener.cloud")+" "+webhook.Path)
	}
	validations := slices.IndexFunc(declared, func(line string) bool { return strings.HasPrefix(line, "validation.") })
	NewWithT(t).Expect(declared[:validations]).To(HaveExactElements(want))

	onlyShoots := config.Webhooks{SystemComponentsConfig: config.SystemComponentsConfigWebhook{Enabled: true}}
	shoot := registrations.Enabled(config.FlavorGardenerShoot, onlyShoots, registrations.Own{})[0]
	NewWithT(t).Expect([]string{shoot.Name, shoot.Path}).To(Equal([]string{systemcomponents.Name + ".resources.gardener.cloud", systemcomponents.Path}))
}
