package rotation_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/garden/rotation"
)

// An authority that the operator renews without a rotation has a short validity: without its name, the alert about a rotation always fires.
func TestAlertsNameTheRenewedAuthorities(t *testing.T) {
	g := NewWithT(t)
	rules, err := os.ReadFile("../../../deploy/observability/garden.rules.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	renewed := strings.Join(rotation.RenewedAuthorities(), "|")
	g.Expect(regexp.MustCompile(`part="authority", secret(.*?)}`).FindAllStringSubmatch(string(rules), -1)).To(HaveExactElements(
		HaveExactElements(Not(BeEmpty()), `=~"`+renewed+`"`), HaveExactElements(Not(BeEmpty()), `!~"`+renewed+`"`),
	))
}
