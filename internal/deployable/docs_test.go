package deployable_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/deployable"
)

// TestTheDocumentationForgetsNoBinary holds what docs/deploying.md lists to what there is.
func TestTheDocumentationForgetsNoBinary(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root(t), "docs", "deploying.md"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, each := range deployable.All() {
		t.Run(each.Name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(string(content)).To(ContainSubstring("\n- {name: espalier.local/" + each.Name + ", newName: registry.example.com/espalier/" + each.Name + ", newTag: "))
			g.Expect(string(content)).To(ContainSubstring("\n   kubectl delete --ignore-not-found -k deploy/" + each.Name + "\n"))
			g.Expect(string(content)).To(ContainSubstring("\n| " + each.Name + " | "))
		})
	}
}
