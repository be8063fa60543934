package istio_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/istio"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func plain(t *testing.T, zones ...string) values.Values {
	t.Helper()
	list, err := images.Embedded()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return values.Values{
		Operator: values.Operator{Namespace: "garden", Images: list}, APIServerPorts: []int32{443}, VerticalPodAutoscaler: true, Zones: zones,
	}
}

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	balanced := plain(t)
	balanced.LoadBalancers.Annotations = map[string]string{"example.com/kind": "network"}
	balanced.LoadBalancers.ExternalTrafficPolicy = ptr.To(corev1.ServiceExternalTrafficPolicyLocal)
	proxied, unproxied, dual := plain(t), plain(t), plain(t)
	dual.DualStack = true
	proxied.LoadBalancers.ProxyProtocol = &operatorv1alpha1.ProxyProtocol{Allowed: true}
	unproxied.LoadBalancers.ProxyProtocol = &operatorv1alpha1.ProxyProtocol{}
	ownAutoscaler := plain(t)
	ownAutoscaler.VerticalPodAutoscaler = false
	hidden := plain(t)
	hidden.SkipComponents = []string{"virtual-garden-istio-basic-auth-server"}
	objects := map[string][]client.Object{}
	for name, v := range map[string]values.Values{
		"plain": plain(t), "one-zone": plain(t, "a"), "three-zones": plain(t, "a", "b", "c"), "load-balancer": balanced, "own-vpa": ownAutoscaler,
		"proxy-protocol": proxied, "no-proxy-protocol": unproxied, "dual-stack": dual, "without-web-uis": hidden,
	} {
		g := NewWithT(t)
		system, err := istio.Objects(v)
		g.Expect(err).NotTo(HaveOccurred())
		gateway, err := istio.GatewayObjects(v)
		g.Expect(err).NotTo(HaveOccurred())
		objects[name] = append(append(istio.Namespaces(v), system...), gateway...)
	}
	goldentest.Compare(t, "plain", objects)
}

func TestImagesAreRequired(t *testing.T) {
	g := NewWithT(t)
	_, err := istio.Objects(values.Values{})
	g.Expect(err).To(MatchError(`there is no image "istio-istiod" for this cluster`))
	_, err = istio.GatewayObjects(values.Values{})
	g.Expect(err).To(MatchError(`there is no image "istio-proxy" for this cluster`))
}

func TestVersionIsThatOfTheEmbeddedImage(t *testing.T) {
	g := NewWithT(t)
	v := plain(t)
	image, err := v.ExternalImage("istio-proxy")
	g.Expect(err).NotTo(HaveOccurred())
	objects, err := istio.GatewayObjects(v)
	g.Expect(err).NotTo(HaveOccurred())
	for _, each := range objects {
		if version, found := each.GetLabels()["app.kubernetes.io/version"]; found {
			g.Expect(image).To(HaveSuffix(":" + version + "-distroless"))
			return
		}
	}
	t.Error("no object has a version")
}
