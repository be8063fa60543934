package lifecycle_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/garden/components"
)

func TestPasswordsOfWebUIsAreRotated(t *testing.T) {
	const server, routes = "virtual-garden-istio-basic-auth-server", "observability-exposure"
	s := newInstalledScene(t)
	s.Expect(s.set(s.namespace(), routes)).To(BeFalse())
	s.reconciler.Operator.SkipComponents = slices.DeleteFunc(components.Skippable(), func(name string) bool {
		return slices.Contains([]string{"plutono", server, routes}, name)
	})
	s.mustReconcile()
	keys := func(set, prefix string) []string {
		var found []string
		for key := range s.contents(set) {
			if strings.HasPrefix(key, prefix) {
				found = append(found, key)
			}
		}
		return found
	}
	s.Expect(keys(server, "envoyfilter__virtual-garden-istio-ingress__")).To(HaveLen(1))
	s.Expect(keys(routes, "virtualservice__")).To(ConsistOf("virtualservice__garden__virtual-garden-plutono-garden.yaml"))
	s.Expect(keys(routes, "secret__virtual-garden-istio-ingress__garden-plutono-plutono-tls-")).To(HaveLen(1))
	config := keys("plutono", "secret__garden__plutono-config-")
	users, admins := s.secrets("observability-ingress"), s.secrets("plutono-admin")
	s.Expect(users).To(HaveLen(1))
	s.Expect(admins).To(HaveLen(1))
	s.Expect(string(users[0].Data["auth"])).To(Equal("admin:hash"))

	s.edit(annotated("gardener.cloud/operation", "rotate-observability-credentials"))
	s.clock.SetTime(start.Add(time.Hour))
	s.mustReconcile()
	s.Expect(s.secrets("observability-ingress")).To(ConsistOf(HaveField("Data", Not(Equal(users[0].Data)))))
	s.Expect(s.secrets("plutono-admin")).To(ConsistOf(HaveField("Data", Not(Equal(admins[0].Data)))))
	s.Expect(keys("plutono", "secret__garden__plutono-config-")).NotTo(Equal(config), "Pods would keep the former password")

	s.reconciler.Operator.SkipComponents = components.Skippable()
	s.mustReconcile()
	s.Expect(s.set(s.namespace(), server)).To(BeTrue(), "routes without a filter would be public")
	for _, each := range []string{"plutono", routes} {
		s.Eventually(func() bool { return s.set(s.namespace(), each) }).Should(BeFalse(), each)
	}
	s.mustReconcile()
	s.Eventually(func() bool { return s.set(s.namespace(), server) }).Should(BeFalse())
}
