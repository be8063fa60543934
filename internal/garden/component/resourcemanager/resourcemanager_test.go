package resourcemanager_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func image(binary string) string { return "example.com/" + binary + ":v1" }

func variants() map[string]values.Values {
	return map[string]values.Values{
		"plain": {Operator: values.Operator{Namespace: "garden", Image: image}},
		"full": {
			Operator: values.Operator{
				Namespace: "garden", Image: image, LogLevel: "debug", LogFormat: "text", NotReadySeconds: ptr.To[int64](60),
				UnreachableSeconds:   ptr.To[int64](50),
				NetworkPolicyWorkers: 7, NamespaceSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"team": "a"}}},
				DefaultSeccompProfile: true,
			},
			Zones: []string{"a", "b"}, TopologyAwareRouting: true,
		},
	}
}

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	objects := map[string][]client.Object{}
	for name, v := range variants() {
		var err error
		objects[name], err = resourcemanager.Objects(v)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
	}
	goldentest.Compare(t, "full", objects)
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
