package rollout

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestOnlyWholeTextsAreReplaced(t *testing.T) {
	replaced := map[string]string{"server-1": "server-2", "b2xk": "bmV3"}
	live := of(object{
		"metadata": object{"name": "a", "annotations": object{
			"reference.resources.gardener.cloud/secret-c2b1f9f6": "server-1", "reference.resources.gardener.cloud/secret-11111111": "other",
			"note": "about server-1",
		}},
		"spec": object{
			"volumes":  []any{object{"name": "server-1-volume", "secret": object{"secretName": "server-1"}}},
			"replicas": int64(2), "caBundle": "b2xk", "args": []any{"--name=server-1"}, "empty": "",
		},
	})
	before := live.DeepCopy()
	g := NewWithT(t)
	g.Expect(WithTexts(live, replaced)).To(BeComparableTo(of(object{
		"metadata": object{"name": "a", "annotations": object{
			"reference.resources.gardener.cloud/secret-29860f41": "server-2", "reference.resources.gardener.cloud/secret-11111111": "other",
			"note": "about server-1",
		}},
		"spec": object{
			"volumes":  []any{object{"name": "server-1-volume", "secret": object{"secretName": "server-2"}}},
			"replicas": int64(2), "caBundle": "bmV3", "args": []any{"--name=server-1"}, "empty": "",
		},
	})))
	g.Expect(live).To(BeComparableTo(before))
}

func TestManifestsWithoutAReplacedTextStayAsTheyAreWritten(t *testing.T) {
	g := NewWithT(t)
	manifests := map[string][]byte{
		"a": []byte("kind: B # a comment\nspec: {port: 10250, name: other}\n"),
		"b": []byte("kind: B # a comment\nspec: {port: 10250, name: server-1}\n"),
	}
	changed, err := withTextsInManifests(manifests, map[string]string{"server-1": "server-2"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(changed["a"]).To(Equal(manifests["a"]))
	g.Expect(string(changed["b"])).To(Equal("kind: B\nspec:\n  name: server-2\n  port: 10250\n"))
}
