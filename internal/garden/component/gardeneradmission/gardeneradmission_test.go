package gardeneradmission_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneradmission"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// garden returns values with settings in YAML.
func garden(t *testing.T, settings string, changes ...func(*values.Values)) values.Values {
	t.Helper()
	return goldentest.Values(t, func(v *values.Values) any { return &v.GardenerAdmissionController }, settings, changes...)
}

func objects(t *testing.T, v values.Values, webhooks bool) []client.Object {
	t.Helper()
	own, err := gardeneradmission.Objects(v, gardeneradmission.Input{
		Kubeconfig: "generic-token-kubeconfig-1", Server: "gardener-admission-controller-cert-1",
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return append(append(own.Direct, own.Set...), gardeneradmission.VirtualObjects(v, []byte("bundle"), webhooks)...)
}

const limits = `
logLevel: debug
resourceAdmissionConfiguration:
  limits:
  - {apiGroups: [core.gardener.cloud], apiVersions: [v1beta1], resources: [shoots], size: 100k}
  - {apiGroups: [""], apiVersions: [v1], resources: [secrets, configmaps], size: 1Mi}
  - {apiGroups: [core.gardener.cloud], apiVersions: ["*"], resources: [projects], count: 5}
  unrestrictedSubjects:
  - {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:masters"}
  operationMode: log
`

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	topology := func(runtime string) func(*values.Values) {
		return func(v *values.Values) {
			v.TopologyAwareRouting, v.RuntimeKubernetes = true, version.MustParseSemantic(runtime)
		}
	}
	goldentest.Compare(t, "plain", map[string][]client.Object{
		"plain": objects(t, garden(t, "{}"), true),
		// The webhook that spreads Pods sets the replicas.
		"ha":                   objects(t, garden(t, "{}", func(v *values.Values) { v.HighAvailability = true }), true),
		"own-vpa":              objects(t, garden(t, "{}", func(v *values.Values) { v.VerticalPodAutoscaler = false }), true),
		"topology":             objects(t, garden(t, "{}", topology("1.34.1")), true),
		"topology-old-runtime": objects(t, garden(t, "{}", topology("1.33.1")), true),
		"limits":               objects(t, garden(t, limits), true),
		"without-webhooks":     objects(t, garden(t, "{}"), false),
	})
}

func TestImageIsRequired(t *testing.T) {
	_, err := gardeneradmission.Objects(garden(t, "{}", func(v *values.Values) { v.Images = nil }), gardeneradmission.Input{})
	NewWithT(t).Expect(err).To(MatchError(`there is no image "gardener-admission-controller" for this cluster`))
}

func TestServerCertificate(t *testing.T) {
	const name = "gardener-admission-controller"
	NewWithT(t).Expect(gardeneradmission.ServerCertificate(garden(t, "{}"))).To(Equal(secrets.Request{
		SignedBy: "ca-gardener", Signer: secrets.CurrentSigner, Config: secretconfig.Certificate{
			Name: name + "-cert", CommonName: name, Type: secretconfig.Server, SkipPublishingCACertificate: true,
			DNSNames: []string{name, name + ".garden", name + ".garden.svc", name + ".garden.svc.cluster.local"},
		},
	}))
}

func TestWebhooksAreCalledWhenTheManagedResourceHasThem(t *testing.T) {
	g := NewWithT(t)
	of := func(kinds ...string) *resourcesv1alpha1.ManagedResource {
		set := &resourcesv1alpha1.ManagedResource{}
		for _, each := range kinds {
			set.Status.Resources = append(set.Status.Resources, resourcesv1alpha1.ObjectReference{
				ObjectReference: corev1.ObjectReference{Kind: each},
			})
		}
		return set
	}
	g.Expect(gardeneradmission.CallsWebhooks(nil)).To(BeFalse())
	g.Expect(gardeneradmission.CallsWebhooks(of("ClusterRole", "ClusterRoleBinding"))).To(BeFalse())
	g.Expect(gardeneradmission.CallsWebhooks(of("ClusterRole", "ValidatingWebhookConfiguration"))).To(BeTrue())
}
