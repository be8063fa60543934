package merge_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/apply/merge"
)

func TestMergeKeepsTheBindingOfVolumesAndClaims(t *testing.T) {
	for name, tc := range map[string]struct{ kind, field string }{
		"a claim keeps its volume": {kind: "PersistentVolumeClaim", field: "volumeName"},
		"a volume keeps its claim": {kind: "PersistentVolume", field: "claimRef"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			object := func(binding string) *unstructured.Unstructured {
				spec := map[string]any{"storageClassName": "s"}
				if binding != "" {
					spec[tc.field] = binding
				}
				return &unstructured.Unstructured{
					Object: map[string]any{"apiVersion": "v1", "kind": tc.kind, "metadata": map[string]any{"name": "x"}, "spec": spec},
				}
			}
			merged, err := merge.Merge(object("live"), object(""), merge.Options{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(merged.Object["spec"]).To(HaveKeyWithValue(tc.field, "live"))
			merged, err = merge.Merge(object("live"), object("desired"), merge.Options{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(merged.Object["spec"]).To(HaveKeyWithValue(tc.field, "desired"))
		})
	}
}
