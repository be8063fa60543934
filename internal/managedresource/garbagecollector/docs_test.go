package garbagecollector_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/references"
)

// example returns the objects of the documentation's example.
func example(t *testing.T) (configMap, deployment string) {
	t.Helper()
	g := NewWithT(t)
	page, err := os.ReadFile(filepath.FromSlash("../../../docs/garbage-collector.md"))
	g.Expect(err).NotTo(HaveOccurred())
	_, after, found := strings.Cut(string(page), "## An example\n\n```yaml\n")
	g.Expect(found).To(BeTrue())
	text, _, found := strings.Cut(after, "```")
	g.Expect(found).To(BeTrue())
	configMap, deployment, found = strings.Cut(text, "---\n")
	g.Expect(found).To(BeTrue())
	return configMap, deployment
}

func TestTheExampleIsNamedAsTheHelpersWould(t *testing.T) {
	g := NewWithT(t)
	manifest, deployment := example(t)
	configMap, unique := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	g.Expect(yaml.Unmarshal([]byte(manifest), configMap)).To(Succeed())
	configMap.DeepCopyInto(unique)
	unique.Name, unique.Labels, unique.Immutable = "settings", nil, nil
	g.Expect(references.MakeUnique(unique)).To(Succeed())
	g.Expect(configMap).To(BeComparableTo(unique))
	key := regexp.QuoteMeta(references.AnnotationKey("configmap", configMap.Name) + ": " + configMap.Name)
	g.Expect(regexp.MustCompile(key).FindAllString(deployment, -1)).To(HaveLen(2))
}

func TestTheExampleProtects(t *testing.T) {
	s := newScene(t, options{twoClusters: true})
	configMap, deployment := example(t)
	here := strings.NewReplacer("namespace: shop", "namespace: "+s.Namespace, "labels:\n    res", "labels:\n    part-of: test\n    res")
	name := s.Create(here.Replace(configMap)).GetName()
	s.Create(here.Replace(deployment))
	s.Expect(s.run()).To(Succeed())
	s.Expect(s.left()).To(Equal([]string{"ConfigMap/" + name}))
	s.Remove("apps/v1/Deployment", "web")
	s.Expect(s.run()).To(Succeed())
	s.Expect(s.left()).To(BeEmpty())
}
