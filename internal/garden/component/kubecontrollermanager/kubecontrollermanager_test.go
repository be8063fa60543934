package kubecontrollermanager_test

import (
	"net/netip"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/kubecontrollermanager"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// runtimeConfig is the runtime configuration of kube-apiserver without settings of the Garden.
func runtimeConfig() map[string]bool {
	return map[string]bool{
		"apps/v1": false, "autoscaling/v2": false, "batch/v1": false, "policy/v1": false, "storage.k8s.io/v1/csinodes": false,
	}
}

// of returns values for a version of Kubernetes.
func of(t *testing.T, kubernetes string, changes ...func(*values.Values)) values.Values {
	t.Helper()
	list, err := images.Embedded()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	v := values.Values{
		Operator:              values.Operator{Namespace: "garden", Images: list},
		VerticalPodAutoscaler: true, Kubernetes: version.MustParseSemantic(kubernetes),
		ServiceNetworks: []netip.Prefix{netip.MustParsePrefix("100.64.0.0/13")},
	}
	v.KubeControllerManager.CertificateSigningDuration = &metav1.Duration{Duration: 48 * time.Hour}
	for _, change := range changes {
		change(&v)
	}
	return v
}

func objects(t *testing.T, v values.Values, runtimeConfig map[string]bool) []client.Object {
	t.Helper()
	all, err := kubecontrollermanager.Objects(v, kubecontrollermanager.Secrets{
		Authority: "ca-bundle-1", ClientAuthority: "ca-client-1", ServiceAccountKey: "service-account-key-1",
		Server: "kube-controller-manager-server-1", Kubeconfig: "generic-token-kubeconfig-1",
	}, runtimeConfig)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return append(all, kubecontrollermanager.VirtualObjects()...)
}

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	everything := runtimeConfig()
	for api := range everything {
		everything[api] = true
	}
	goldentest.Compare(t, "1.36", map[string][]client.Object{
		"1.36": objects(t, of(t, "1.36.3"), runtimeConfig()),
		"1.35": objects(t, of(t, "1.35.1"), runtimeConfig()),
		"1.34": objects(t, of(t, "1.34.1"), runtimeConfig()),
		"1.33": objects(t, of(t, "1.33.1"), runtimeConfig()),
		"1.32": objects(t, of(t, "1.32.1"), runtimeConfig()),
		// High availability and routing that is aware of the topology change nothing here.
		"ha-topology": objects(t, of(t, "1.36.3", func(v *values.Values) {
			v.HighAvailability, v.TopologyAwareRouting, v.Zones = true, true, []string{"a", "b"}
		}), runtimeConfig()),
		"own-vpa": objects(t, of(t, "1.36.3", func(v *values.Values) { v.VerticalPodAutoscaler = false }), runtimeConfig()),
		"configured": objects(t, of(t, "1.36.3", func(v *values.Values) {
			v.ServiceNetworks = append(v.ServiceNetworks, netip.MustParsePrefix("2001:db8::/112"))
			v.KubeControllerManager.CertificateSigningDuration = nil
			v.KubeControllerManager.FeatureGates = map[string]bool{
				"AllBeta": true, "AllAlpha": false, "HVPA": true, "StructuredAuthenticationConfiguration": false,
			}
		}), everything),
	})
}

func TestImageIsRequired(t *testing.T) {
	_, err := kubecontrollermanager.Objects(of(t, "1.36.3", func(v *values.Values) { v.Images = nil }), kubecontrollermanager.Secrets{}, nil)
	NewWithT(t).Expect(err).To(MatchError(`there is no image "kube-controller-manager" for this cluster`))
}

func TestServerCertificate(t *testing.T) {
	const name = "virtual-garden-kube-controller-manager"
	NewWithT(t).Expect(kubecontrollermanager.ServerCertificate(of(t, "1.36.3"))).To(Equal(secrets.Request{
		SignedBy: "ca", Config: secretconfig.Certificate{
			Name: "kube-controller-manager-server", CommonName: name, Type: secretconfig.Server, SkipPublishingCACertificate: true,
			DNSNames: []string{name, name + ".garden", name + ".garden.svc", name + ".garden.svc.cluster.local"},
		},
	}))
}
