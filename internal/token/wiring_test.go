package token_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/token"
)

func TestNothingEnabledIsAnError(t *testing.T) {
	NewWithT(t).Expect(token.Add(t.Context(), nil, &config.ResourceManagerConfiguration{}, nil)).To(MatchError(
		"nothing to do: set controllers.tokenRequestor.enabled or controllers.tokenInvalidator.enabled to true, or do not run this binary"))
}

func TestNeedsOnlyWhatIsEnabled(t *testing.T) {
	for name, tc := range map[string]struct {
		requestor, invalidator bool
		targetNamespace        *string
		source, target         []string
	}{
		"nothing": {},
		"the requestor": {
			requestor: true, source: []string{"Secret get list watch patch"}, target: []string{"ServiceAccount get create update"},
		},
		"the requestor of one namespace": {requestor: true, targetNamespace: ptr.To("x"), source: []string{"Secret get list watch patch"}},
		"the invalidator": {
			invalidator: true, target: []string{"ServiceAccount list watch", "Secret list watch patch", "Pod list"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cfg := &config.ResourceManagerConfiguration{}
			cfg.Controllers.TokenRequestor.Enabled, cfg.Controllers.TokenInvalidator.Enabled = tc.requestor, tc.invalidator
			cfg.Espalier.Token.TargetNamespace = tc.targetNamespace
			needs, err := token.Needs(cfg)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(list(needs.SourceAccess)).To(Equal(tc.source))
			g.Expect(list(needs.TargetAccess)).To(Equal(tc.target))
			g.Expect(needs.SourceCache.ByObject != nil).To(Equal(tc.requestor))
			g.Expect(needs.TargetCache.ByObject != nil).To(Equal(tc.invalidator))
		})
	}
}

func list(required []process.Requirement) []string {
	var lines []string
	for _, each := range required {
		lines = append(lines, each.Kind.Kind+" "+strings.Join(each.Verbs, " "))
	}
	return lines
}
