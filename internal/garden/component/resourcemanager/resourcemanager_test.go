package resourcemanager_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/garden/rollout"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

var update = flag.Bool("update", false, "write the golden files")

func image(binary string) string { return "example.com/" + binary + ":v1" }

func variants() map[string]values.Values {
	return map[string]values.Values{
		"plain": {Operator: values.Operator{Namespace: "garden", Image: image}},
		"full": {
			Operator: values.Operator{
				Namespace: "garden", Image: image, LogLevel: "debug", LogFormat: "text", NotReadySeconds: ptr.To[int64](60), UnreachableSeconds: ptr.To[int64](50),
				NetworkPolicyWorkers: 7, NamespaceSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"team": "a"}}}, DefaultSeccompProfile: true,
			},
			Zones: []string{"a", "b"}, TopologyAwareRouting: true,
		},
	}
}

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			typed, err := resourcemanager.Objects(v)
			g.Expect(err).NotTo(HaveOccurred())
			objects, err := rollout.Unstructured(typed...)
			g.Expect(err).NotTo(HaveOccurred())
			var got bytes.Buffer
			for _, each := range objects {
				content, failure := yaml.Marshal(each.Object)
				g.Expect(failure).NotTo(HaveOccurred())
				got.WriteString("---\n" + string(content))
			}
			path := filepath.Join("testdata", name+".yaml")
			if *update {
				g.Expect(os.MkdirAll("testdata", 0o750)).To(Succeed())
				g.Expect(os.WriteFile(path, got.Bytes(), 0o600)).To(Succeed())
			}
			want, err := os.ReadFile(path)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.String()).To(Equal(string(want)))
		})
	}
}

func TestConfigurationsAreValid(t *testing.T) {
	for name, v := range variants() {
		typed, err := resourcemanager.Objects(v)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		for _, each := range typed {
			if o, ok := each.(*corev1.ConfigMap); ok {
				t.Run(name+" "+o.Name, func(t *testing.T) {
					_, warnings, err := config.ResourceManager([]byte(o.Data["config.yaml"]))
					NewWithT(t).Expect(err).NotTo(HaveOccurred())
					NewWithT(t).Expect(warnings).To(BeEmpty())
				})
			}
		}
	}
}

func TestNothingIsNamedLikeAnInstallationOfItsOwn(t *testing.T) {
	g := NewWithT(t)
	typed, err := resourcemanager.Objects(variants()["plain"])
	g.Expect(err).NotTo(HaveOccurred())
	content, err := yaml.Marshal(typed)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).NotTo(ContainSubstring("espalier-"))
	for _, each := range typed {
		g.Expect(strings.HasPrefix(each.GetName(), "gardener-")).To(BeTrue(), each.GetName())
	}
}
