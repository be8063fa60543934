package nginxingress_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/nginxingress"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func plain(t *testing.T, domains ...string) values.Values {
	t.Helper()
	list, err := images.Embedded()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return values.Values{
		Operator: values.Operator{Namespace: "garden", Images: list}, VerticalPodAutoscaler: true, Ingress: values.Ingress{Domains: domains},
	}
}

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	configured := plain(t, "ingress.example.com")
	configured.Ingress.Settings = map[string]string{"worker-processes": "4", "proxy-body-size": "1000000"}
	ownAutoscaler := plain(t, "ingress.example.com")
	ownAutoscaler.VerticalPodAutoscaler = false
	objects := map[string][]client.Object{}
	for name, v := range map[string]values.Values{
		"plain": plain(t, "ingress.example.com"), "two-domains": plain(t, "ingress.example.com", "ingress.example.org"),
		"configured": configured, "own-vpa": ownAutoscaler,
	} {
		var err error
		objects[name], err = nginxingress.Objects(v)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
	}
	goldentest.Compare(t, "plain", objects)
}
