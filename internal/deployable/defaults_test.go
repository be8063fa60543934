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

// The role edit allows users to change the Secrets that contain the objects of sets, but not Namespaces.
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

// The user who applies the shipped files has not said yet which Seed the process serves, and what its charts may contain.
func TestShippedConfigurationServesNoSeedAndAllowsChartsTheLeast(t *testing.T) {
	g := NewWithT(t)
	binary, found := deployable.Named("extension-controller")
	g.Expect(found).To(BeTrue())
	c, _, err := config.Gardenlet([]byte(binary.Config))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.SeedConfig.Metadata.Name).To(BeEmpty())
	g.Expect(c.Espalier.Extension.ChartPolicy).To(BeZero())
	g.Expect(c.GardenClientConnection.KubeconfigSecret.Namespace).To(Equal("espalier-system"), "not the Secret of a gardenlet")
}

// Profiles may contain data from the memory of the process, and the metrics port has no authentication.
func TestShippedConfigurationsDoNotProfile(t *testing.T) {
	for _, each := range deployable.All() {
		NewWithT(t).Expect(each.Config+each.ConfigApart).NotTo(ContainSubstring("enableProfiling"), each.Name)
	}
}

// A user with the role view, edit or admin in a namespace gets no further right when deploy/ is applied.
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
