package deployable_test

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/deployable"
)

// TestTheTokenInvalidatorIsSwitchedOnByOneCommand also requires that the invalidator needs no rights that only the token requestor needs.
func TestTheTokenInvalidatorIsSwitchedOnByOneCommand(t *testing.T) {
	g := NewWithT(t)
	applied := rendered(t, filepath.Join(root(t), "deploy", "overlays", "token-invalidator"))
	files := deployable.Invalidating()
	g.Expect(files).To(HaveLen(2))
	for binary, text := range files {
		cfg, warnings, err := config.ResourceManager([]byte(text))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(warnings).To(BeEmpty())
		g.Expect(cfg.Validate()).To(BeEmpty())
		g.Expect(cfg.Controllers.TokenInvalidator.Enabled && cfg.Webhooks.TokenInvalidator.Enabled).To(BeTrue())
		g.Expect(applied["ConfigMap espalier-system/espalier-"+binary]["data"]).To(Equal(map[string]any{"config.yaml": text}))
	}
	g.Expect(applied).To(HaveKey("ClusterRoleBinding /espalier-token-controllers-target-invalidator"))
	g.Expect(applied).NotTo(HaveKey("ClusterRoleBinding /espalier-token-controllers-target"))
	g.Expect(applied).NotTo(HaveKey("ClusterRoleBinding /espalier-token-controllers-source"))
}
