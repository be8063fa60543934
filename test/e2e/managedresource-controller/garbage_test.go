//go:build e2e

package managedresourcecontroller_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// slow is the label of specs that need more than ten minutes.
var slow = Label("slow")

const (
	// minimumAge is the age from which on the garbage collector deletes objects. A test must wait for it, because it cannot create older
	// objects.
	minimumAge = 10 * time.Minute
	// collecting is a configuration with which the garbage collector runs four times a minute.
	collecting = `apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
leaderElection: {resourceNamespace: espalier-system}
controllers:
  garbageCollector: {enabled: true, syncPeriod: 15s}
`
)

// garbage is the scene with the objects for the garbage collector, created at the start of the suite, so that they reach the minimum age
// while the other specs run.
var garbage scene

func prepareGarbage(ctx context.Context) {
	GinkgoHelper()
	garbage = newScene(ctx)
	for _, name := range []string{"unused", "used", "unlabelled", "kept"} {
		object := garbage.configMap(name, "x")
		object.Immutable = ptr.To(true)
		object.Labels = map[string]string{"resources.gardener.cloud/garbage-collectable-reference": "true"}
		switch name {
		case "unlabelled":
			object.Labels = nil
		case "kept":
			object.Annotations = map[string]string{"resources.gardener.cloud/keep-object": "true"}
		}
		Expect(c.Client.Create(ctx, object)).To(Succeed())
	}
	web := garbage.deployment("web", 1)
	reference := map[string]string{"reference.resources.gardener.cloud/configmap-0fffcb27": "used"}
	web.Annotations = reference
	web.Spec.Template.Annotations = reference
	web.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "used"},
	}}}
	Expect(c.Client.Create(ctx, web)).To(Succeed())
}

// This spec runs last, because it has to wait.
var _ = Describe("the garbage collector", slow, SpecPriority(-1), func() {
	It("deletes immutable ConfigMaps that no object uses, and used ones when no object uses them any more", func(ctx SpecContext) {
		DeferCleanup(func(ctx SpecContext) { Expect(c.Ensure(ctx, binary)).To(Succeed()) })
		Expect(c.Configure(ctx, binary, collecting)).To(Succeed())

		By("waiting until the ConfigMaps are old enough")
		Eventually(garbage.names).WithContext(ctx).WithTimeout(minimumAge + time.Minute).WithPolling(time.Second).
			ShouldNot(ContainElement("unused"))
		Expect(garbage.names(ctx)).To(ContainElements("used", "unlabelled", "kept"))
		Eventually(c.Notes).WithContext(ctx).WithArguments(garbage.namespace, "GarbageCollected").Should(HaveLen(1))

		By("deleting the Deployment that uses one of them")
		Expect(c.Client.Delete(ctx, garbage.deployment("web", 1), client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
		Eventually(garbage.names).WithContext(ctx).WithTimeout(2 * time.Minute).ShouldNot(ContainElement("used"))
		Expect(garbage.names(ctx)).To(ContainElements("unlabelled", "kept"))
	})
})

// names returns the names of all ConfigMaps in the namespace of the scene.
func (s scene) names(ctx context.Context) ([]string, error) {
	configMaps := &corev1.ConfigMapList{}
	err := c.Client.List(ctx, configMaps, client.InNamespace(s.namespace))
	names := make([]string, 0, len(configMaps.Items))
	for _, each := range configMaps.Items {
		names = append(names, each.Name)
	}
	return names, err
}
