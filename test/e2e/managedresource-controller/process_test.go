//go:build e2e

package managedresourcecontroller_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

var _ = Describe("the controller's Pods", Serial, func() {
	const lease = "gardener-resource-manager"

	cluster.Process{Binary: binary, Lease: lease, Metric: "espalier_managedresource_"}.Specs(&c)

	It("hand the lease over when the leader ends", func(ctx SpecContext) {
		Expect(c.HandOver(ctx, binary, lease)).To(Succeed())

		s := newScene(ctx)
		s.apply(ctx, "set", s.configMap("settings", "of the new leader"))
		s.reports(ctx, "set", settled())
		Expect(c.RolledOut(ctx, binary)).To(Succeed())
	})

	It("are replaced when they are killed, and lose and delete nothing", func(ctx SpecContext) {
		s := newScene(ctx)
		s.apply(ctx, "before", s.configMap("before", "a"), s.deployment("web", 1))
		s.reports(ctx, "before", settled())
		uid := s.uid(ctx, "before")

		pods, err := c.Pods(ctx, binary)
		Expect(err).NotTo(HaveOccurred())
		for _, pod := range pods {
			Expect(client.IgnoreNotFound(c.Client.Delete(ctx, &pod, client.GracePeriodSeconds(0)))).To(Succeed())
		}
		By("changing objects while no controller runs")
		_, err = c.Kubectl(ctx, "-n", s.namespace, "patch", "configmap", "before", "--type=merge", "-p", `{"data": {"value": "changed"}}`)
		Expect(err).NotTo(HaveOccurred())
		s.apply(ctx, "meanwhile", s.configMap("meanwhile", "b"))

		// The killed Pods are gone, so the holder is a new Pod.
		Eventually(c.Leader).WithContext(ctx).WithArguments(binary, lease).WithTimeout(2 * cluster.Patience).ShouldNot(BeEmpty())
		s.reports(ctx, "meanwhile", settled())
		Eventually(s.value).WithContext(ctx).WithArguments("before").Should(Equal("a"))
		s.reports(ctx, "before", settled())
		Expect(s.uid(ctx, "before")).To(Equal(uid))
		Expect(c.RolledOut(ctx, binary)).To(Succeed())
	})
})

// uid returns the UID of a ConfigMap: it changes if the ConfigMap is deleted and created again.
func (s scene) uid(ctx SpecContext, name string) types.UID {
	GinkgoHelper()
	object := &corev1.ConfigMap{}
	s.get(ctx, object, name)
	return object.UID
}
