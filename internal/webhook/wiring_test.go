package webhook

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
)

func TestWithoutHandlersThereIsNothingToDo(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Check(&config.ResourceManagerConfiguration{})).
		To(MatchError("nothing to do: set webhooks.<handler>.enabled: true, or do not run webhook-server"))
	g.Expect(Check(&config.ResourceManagerConfiguration{Webhooks: config.Webhooks{SeccompProfile: config.Switch{Enabled: true}}})).
		To(Succeed())
}
