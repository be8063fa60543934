package exposure_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func plain(changes ...func(*values.Values)) values.Values {
	v := values.Values{
		Operator: values.Operator{Namespace: "garden", RuntimeKubernetes: version.MustParseSemantic("1.34.0")}, Domains: []string{"example.com"},
	}
	for _, each := range changes {
		each(&v)
	}
	return v
}

func objects(v values.Values) []client.Object {
	return append([]client.Object{exposure.Service(v)}, exposure.Routes(v)...)
}

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	topologyAware := func(v *values.Values) { v.TopologyAwareRouting = true }
	oldRuntime := func(v *values.Values) { v.RuntimeKubernetes = version.MustParseSemantic("1.33.4") }
	goldentest.Compare(t, "plain", map[string][]client.Object{
		"plain":                objects(plain()),
		"two-domains":          objects(plain(func(v *values.Values) { v.Domains = []string{"example.com", "garden.example.org"} })),
		"topology":             objects(plain(topologyAware)),
		"topology-old-runtime": objects(plain(topologyAware, oldRuntime)),
		"load-balancer": objects(plain(func(v *values.Values) {
			v.LoadBalancers.Annotations = map[string]string{"example.com/kind": "network"}
		})),
	})
}

func TestAddressIsThatOfTheLastLoadBalancer(t *testing.T) {
	const none = "Service istio/gateway has no load balancer yet: its status.loadBalancer.ingress is empty"
	for sentence, tc := range map[string]struct {
		ingress       []corev1.LoadBalancerIngress
		want, problem string
	}{
		"none":                     {problem: none},
		"an entry without address": {ingress: []corev1.LoadBalancerIngress{{}}, problem: none},
		"an IP address":            {ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}, want: "192.0.2.1"},
		"a host name":              {ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1", Hostname: "a.example.com"}}, want: "a.example.com"},
		"several load balancers":   {ingress: []corev1.LoadBalancerIngress{{Hostname: "a.example.com"}, {IP: "192.0.2.2"}}, want: "192.0.2.2"},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			gateway := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "istio", Name: "gateway"},
				Status:     corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: tc.ingress}},
			}
			g.Expect(exposure.Address(gateway)).To(Equal(tc.want))
			g.Expect(exposure.Problem(gateway)).To(Equal(tc.problem))
		})
	}
}
