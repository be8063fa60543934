package vpa_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/vpa"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

func enabled(t *testing.T) values.Values {
	t.Helper()
	list, err := images.Embedded()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return values.Values{Operator: values.Operator{Namespace: "garden", Images: list}, VerticalPodAutoscaler: true}
}

func configured(t *testing.T) values.Values {
	t.Helper()
	v := enabled(t)
	v.Autoscaling.FeatureGates = map[string]bool{"PerVPAConfig": false, "CPUStartupBoost": true, "InPlaceOrRecreate": true, "Trees": true}
	v.Autoscaling.MaxAllowed = corev1.ResourceList{
		corev1.ResourceMemory: resource.MustParse("100Gi"), corev1.ResourceCPU: resource.MustParse("16"),
	}
	return v
}

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	credentials := vpa.Credentials{
		Authority: "ca-garden-runtime-bundle-1", Bundle: []byte("bundle"), Server: "vpa-admission-controller-server-1",
	}
	objects := map[string][]client.Object{}
	for name, v := range map[string]values.Values{"enabled": enabled(t), "configured": configured(t)} {
		var err error
		objects[name], err = vpa.Objects(v, credentials)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
	}
	goldentest.Compare(t, "enabled", objects)
}

func TestUnknownFeatureGatesAreNamed(t *testing.T) {
	g := NewWithT(t)
	g.Expect(vpa.UnknownGates(configured(t))).To(Equal([]string{"InPlaceOrRecreate", "Trees"}))
	g.Expect(vpa.UnknownGates(enabled(t))).To(BeEmpty())
}

func TestServerCertificate(t *testing.T) {
	NewWithT(t).Expect(vpa.ServerCertificate(values.Values{Operator: values.Operator{Namespace: "garden"}})).To(Equal(secrets.Request{
		SignedBy: "ca-garden-runtime", Signer: secrets.CurrentSigner, Config: secretconfig.Certificate{
			Name: "vpa-admission-controller-server", CommonName: "vpa-webhook.garden.svc", Type: secretconfig.Server,
			SkipPublishingCACertificate: true,
			DNSNames: []string{
				"vpa-webhook", "vpa-webhook.garden", "vpa-webhook.garden.svc", "vpa-webhook.garden.svc.cluster.local",
			},
		},
	}))
}
