package compare_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/test/e2e/compare"
)

// objects returns the objects of documents in YAML.
func objects(t *testing.T, names map[string]string, documents ...string) compare.Objects {
	t.Helper()
	all := compare.Objects{}
	for _, each := range documents {
		o := &unstructured.Unstructured{}
		NewWithT(t).Expect(yaml.Unmarshal([]byte(each), &o.Object)).To(Succeed())
		all.Add(o, names)
	}
	return all
}

func TestObjectsOfTwoRunsAreEqual(t *testing.T) {
	g := NewWithT(t)
	first := objects(t, map[string]string{"extension-a-x1y2z": "extension-a"}, `
apiVersion: v1
kind: Secret
metadata:
  {namespace: extension-a-x1y2z, name: ca-0a1b2c3d, uid: a, resourceVersion: "1", annotations: {at: "2026-01-02T03:04:05Z"}}
data: {ca.crt: LS0tLS1CRUdJTi1}
`, `
kind: Shop
metadata: {name: a, annotations: {secret-11111111: x, secret-22222222: y}}
spec: {ref: {name: b, resourceVersion: "1"}}
status: {conditions: [{type: Open, status: "True"}, {type: Full, status: "False"}]}
`)
	second := objects(t, map[string]string{"extension-a-5v6w7": "extension-a"}, `
apiVersion: v1
kind: Secret
metadata:
  {namespace: extension-a-5v6w7, name: ca-99999999, uid: b, resourceVersion: "2", annotations: {at: "2026-01-02T09:04:05.123Z"}}
data: {ca.crt: LS0tLS1CRUdJTi2}
`, `
kind: Shop
metadata: {name: a, annotations: {secret-44444444: x, secret-33333333: y}}
spec: {ref: {name: b, resourceVersion: "2"}}
status: {conditions: [{type: Full, status: "False"}, {type: Open, status: "True"}]}
`)
	g.Expect(first).To(HaveKey("Secret extension-a/ca-<hash>"))
	g.Expect(compare.Differences(first, second)).To(BeEmpty())
}

func TestDifferencesNameEachField(t *testing.T) {
	g := NewWithT(t)
	first := objects(t, nil, `
kind: ConfigMap
metadata: {name: a, labels: {a.b/c: d}, managedFields: [{manager: x, operation: Update}]}
data: {values: "n: 1\nm: [2]\n"}
`, `{kind: ConfigMap, metadata: {name: b}}`, `{kind: Namespace, metadata: {name: c, labels: {a.b/c: d}}}`)
	second := objects(t, nil, `
kind: ConfigMap
metadata: {name: a, managedFields: [{manager: z, operation: Apply}]}
data: {values: "n: 1\nm: [3]\n"}
`, `{kind: Namespace, metadata: {name: c}}`)
	g.Expect(compare.Differences(first, second)).To(Equal([]compare.Difference{
		{Gardener: "exists", Objects: []string{"ConfigMap b"}},
		{Field: "data.values.m[0]", Gardener: "2", Espalier: "3", Objects: []string{"ConfigMap a"}},
		{Field: "managers", Gardener: "x Update", Espalier: "z Apply", Objects: []string{"ConfigMap a"}},
		{Field: "metadata.labels.[a.b/c]", Gardener: "d", Objects: []string{"ConfigMap a", "Namespace c"}},
	}))
}

func TestCheckRefusesWhatTheFileDoesNotExplain(t *testing.T) {
	g := NewWithT(t)
	file, written := filepath.Join(t.TempDir(), "known.yaml"), filepath.Join(t.TempDir(), "found.yaml")
	check := func(known string, found ...compare.Difference) error {
		g.Expect(os.WriteFile(file, []byte(known), 0o600)).To(Succeed())
		return compare.Check(found, file, written)
	}
	difference := compare.Difference{Field: "x", Gardener: "1", Espalier: "2", Objects: []string{"A b"}}
	g.Expect(check("[]")).To(Succeed())
	g.Expect(check("[]", difference)).To(MatchError(ContainSubstring(`new: x: "1" became "2" in A b`)))
	unexplained, err := os.ReadFile(written)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(check(string(unexplained), difference)).To(MatchError(ContainSubstring("without a reason")))
	explained := string(unexplained) + "  reason: why not\n"
	g.Expect(check(explained, difference)).To(Succeed())
	g.Expect(os.ReadFile(written)).To(BeEquivalentTo(explained), "the reasons of the file stay")
	g.Expect(check(explained)).To(MatchError(ContainSubstring("gone: x")))
}
