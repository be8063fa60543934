package lifecycle

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/defaulting"
)

// Each file is the Garden of examples/ or of the local garden as it was at the date in the name. A release that refused one of them would
// stop the reconciliation of landscapes that exist. Add such files with each release.
func TestGardensOfFormerReleasesAreNotRefused(t *testing.T) {
	files, err := filepath.Glob("testdata/releases/*.yaml")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			g := NewWithT(t)
			text, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			stored := &operatorv1alpha1.Garden{}
			g.Expect(yaml.UnmarshalStrict(text, stored)).To(Succeed())
			defaulting.Garden(stored)
			g.Expect(validate(stored, stored)).To(Succeed())
		})
	}
}
