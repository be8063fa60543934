package resourcemanager_test

import (
	"slices"
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
			Zones: []string{"a", "b"}, TopologyAwareRouting: true, VerticalPodAutoscaler: true, HighAvailability: true,
			TargetNamespaces: []string{"extra", "garden"},
		},
	}
}

func withToken() resourcemanager.Credentials {
	return resourcemanager.Credentials{Kubeconfig: "generic-token-kubeconfig-1"}
}

func withCertificate() resourcemanager.Credentials {
	return resourcemanager.Credentials{Kubeconfig: "generic-token-kubeconfig-1", Bootstrap: "bootstrap-1"}
}

// objects returns the objects of both resource managers.
func objects(t *testing.T, v values.Values, credentials resourcemanager.Credentials) []client.Object {
	t.Helper()
	runtime, err := resourcemanager.Objects(v)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	virtual, err := resourcemanager.VirtualObjects(v, credentials)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return slices.Concat(runtime, virtual, resourcemanager.TargetObjects())
}

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	rendered := map[string][]client.Object{"bootstrap": objects(t, variants()["full"], withCertificate())}
	for name, v := range variants() {
		rendered[name] = objects(t, v, withToken())
	}
	goldentest.Compare(t, "full", rendered)
}

func TestConfigurationsAreValid(t *testing.T) {
	for name, v := range variants() {
		for _, each := range objects(t, v, withToken()) {
			if o, ok := each.(*corev1.ConfigMap); ok {
				t.Run(name+" "+o.Name, func(t *testing.T) {
					c, warnings, err := config.ResourceManager([]byte(o.Data["config.yaml"]))
					NewWithT(t).Expect(err).NotTo(HaveOccurred())
					NewWithT(t).Expect(warnings).To(BeEmpty())
					NewWithT(t).Expect(c.Validate()).To(BeEmpty())
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
