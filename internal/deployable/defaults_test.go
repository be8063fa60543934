package deployable_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/deployable"
)

// The role edit allows changes of the Secrets that sets are read from, and none of Namespaces.
func TestShippedConfigurationAppliesSetsOnlyWhereAdministratorsAllowThem(t *testing.T) {
	for _, each := range deployable.All() {
		if each.Name != "managedresource-controller" {
			continue
		}
		for name, file := range map[string]string{"one cluster": each.Config, "two clusters": each.ConfigApart} {
			t.Run(name, func(t *testing.T) {
				g := NewWithT(t)
				c, _, err := config.ResourceManager([]byte(file))
				g.Expect(err).NotTo(HaveOccurred())
				allowed := c.Espalier.ManagedResource.Namespaces
				g.Expect(allowed).NotTo(BeNil())
				g.Expect(ptr.Deref(allowed.Sets, nil)).To(Equal([]string{"espalier-system"}))
				g.Expect(allowed.SetSelector).NotTo(BeNil())
				g.Expect(allowed.SetSelector.MatchLabels).To(Equal(map[string]string{"espalier.dev/managedresources": "allowed"}))
				g.Expect(allowed.SetSelector.MatchExpressions).To(BeEmpty())
			})
		}
	}
}

// Profiles may hold content of memory, and the port of the metrics has no authentication.
func TestShippedConfigurationsDoNotProfile(t *testing.T) {
	for _, each := range deployable.All() {
		NewWithT(t).Expect(each.Config+each.ConfigApart).NotTo(ContainSubstring("enableProfiling"), each.Name)
	}
}

// Who has view, edit or admin in one namespace gets no right by the installation.
func TestShippedRolesDoNotExtendBuiltInRoles(t *testing.T) {
	g := NewWithT(t)
	files := 0
	err := filepath.WalkDir(filepath.Join(root(t), "deploy"), func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".yaml") {
			return err
		}
		content, err := os.ReadFile(file)
		g.Expect(string(content)).NotTo(ContainSubstring("rbac.authorization.k8s.io/aggregate-to-"), file)
		files++
		return err
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).To(BeNumerically(">", 20))
}
