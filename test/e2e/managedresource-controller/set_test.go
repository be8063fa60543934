//go:build e2e

package managedresourcecontroller_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hold is a finalizer that only a spec removes.
const hold = "e2e.espalier.dev/hold"

var _ = Describe("a set", func() {
	var s scene
	BeforeEach(func(ctx SpecContext) { s = newScene(ctx) })

	It("applies the manifests of its Secret, and follows when they change", Label("smoke"), func(ctx SpecContext) {
		s.apply(ctx, "set", s.configMap("settings", "first"))
		s.reports(ctx, "set", settled())
		live := &corev1.ConfigMap{}
		s.get(ctx, live, "settings")
		Expect(live.Data).To(Equal(map[string]string{"value": "first"}))
		Expect(live.Labels).To(HaveKeyWithValue("resources.gardener.cloud/managed-by", "gardener"))
		Expect(live.Annotations).To(HaveKeyWithValue("resources.gardener.cloud/origin", s.namespace+"/set"))

		s.write(ctx, "set", s.configMap("settings", "second"))
		Eventually(s.value).WithContext(ctx).WithArguments("settings").Should(Equal("second"))
	})

	It("says which document cannot be applied, and applies the others", func(ctx SpecContext) {
		s.apply(ctx, "set", s.configMap("settings", "first"), s.configMap("Not_A_Name", "x"))
		s.reports(ctx, "set", map[string]string{"ResourcesApplied": "False ApplyFailed"})
		Expect(s.message(ctx, "set", "ResourcesApplied")).To(ContainSubstring("Not_A_Name"))
		Expect(s.value(ctx, "settings")).To(Equal("first"))

		s.write(ctx, "set", s.configMap("settings", "first"))
		s.reports(ctx, "set", settled())
	})

	It("restores what other clients change or delete, and reports which client it was", Label("smoke"), func(ctx SpecContext) {
		s.apply(ctx, "set", s.configMap("settings", "as it should be"), s.configMap("other", "as well"))
		s.reports(ctx, "set", settled())

		_, err := c.Kubectl(ctx, "-n", s.namespace, "patch", "configmap", "settings", "--field-manager=another-client", "--type=merge", "-p",
			`{"data": {"value": "changed", "more": "added"}}`)
		Expect(err).NotTo(HaveOccurred())
		Eventually(s.data).WithContext(ctx).WithArguments("settings").Should(Equal(map[string]string{"value": "as it should be"}))

		before := &corev1.ConfigMap{}
		s.get(ctx, before, "other")
		Expect(c.Client.Delete(ctx, before.DeepCopy())).To(Succeed())
		Eventually(func(ctx context.Context) (string, error) {
			now := &corev1.ConfigMap{}
			err := c.Client.Get(ctx, client.ObjectKeyFromObject(before), now)
			return string(now.UID), err
		}).WithContext(ctx).ShouldNot(BeElementOf("", string(before.UID)))
		Expect(s.value(ctx, "other")).To(Equal("as well"))
		Eventually(c.Notes).WithContext(ctx).WithArguments(s.namespace, "DriftRepaired").
			Should(ContainElement(ContainSubstring("another-client")))
	})

	It("restores the replicas of a running Deployment, and its Pods follow", func(ctx SpecContext) {
		s.apply(ctx, "set", s.deployment("web", 2))
		s.reports(ctx, "set", settled())
		before := &appsv1.Deployment{}
		s.get(ctx, before, "web")
		_, err := c.Kubectl(ctx, "-n", s.namespace, "scale", "deployment", "web", "--replicas=0")
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega, ctx context.Context) {
			live := &appsv1.Deployment{}
			g.Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(before), live)).To(Succeed())
			g.Expect(ptr.Deref(live.Spec.Replicas, 0)).To(BeEquivalentTo(2))
			g.Expect(live.Generation).To(BeNumerically(">=", before.Generation+2), "scaled, and restored")
			g.Expect(live.Status.ObservedGeneration).To(Equal(live.Generation))
			g.Expect(live.Status.Replicas).To(BeEquivalentTo(2))
			g.Expect(live.Status.AvailableReplicas).To(BeEquivalentTo(2))
		}).WithContext(ctx).WithTimeout(rolloutPatience).Should(Succeed())
		s.reports(ctx, "set", settled())
	})

	It("deletes what leaves its Secret, and nothing else", Label("smoke"), func(ctx SpecContext) {
		foreign := s.configMap("foreign", "of no set")
		Expect(c.Client.Create(ctx, foreign)).To(Succeed())
		s.apply(ctx, "set", s.configMap("stays", "a"), s.configMap("leaves", "b"))
		s.reports(ctx, "set", settled())
		before := &corev1.ConfigMap{}
		s.get(ctx, before, "stays")

		s.write(ctx, "set", s.configMap("stays", "a"))
		s.gone(ctx, s.configMap("leaves", ""))
		s.reports(ctx, "set", settled())
		after := &corev1.ConfigMap{}
		s.get(ctx, after, "stays")
		Expect(after.UID).To(Equal(before.UID))
		s.get(ctx, &corev1.ConfigMap{}, "foreign")
	})

	It("lives until the last of its objects is gone, and says what holds it", func(ctx SpecContext) {
		s.apply(ctx, "set", s.configMap("held", "a"), s.configMap("free", "b"))
		s.reports(ctx, "set", settled())
		DeferCleanup(func(ctx SpecContext) { s.finalizers(ctx, "held") })
		s.finalizers(ctx, "held", hold)

		s.remove(ctx, "set")
		s.gone(ctx, s.configMap("free", ""))
		s.reports(ctx, "set", map[string]string{"ResourcesApplied": "Progressing DeletionPending"})
		Eventually(func(g Gomega, ctx context.Context) {
			g.Expect(s.message(ctx, "set", "ResourcesApplied")).To(ContainSubstring("held"))
		}).WithContext(ctx).Should(Succeed())
		Eventually(func(ctx context.Context) (*metav1.Time, error) {
			held := &corev1.ConfigMap{}
			err := c.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "held"}, held)
			return held.DeletionTimestamp, err
		}).WithContext(ctx).ShouldNot(BeNil())

		s.finalizers(ctx, "held")
		s.goneSet(ctx, "set")
		s.gone(ctx, s.configMap("held", ""))
	})

	It("leaves its objects alone where it says so", func(ctx SpecContext) {
		s.apply(ctx, "set", s.configMap("kept", "a"))
		s.reports(ctx, "set", settled())
		_, err := c.Kubectl(ctx, "-n", s.namespace, "patch", "managedresource", "set", "--type=merge", "-p", `{"spec": {"keepObjects": true}}`)
		Expect(err).NotTo(HaveOccurred())
		s.remove(ctx, "set")
		s.goneSet(ctx, "set")
		Expect(s.value(ctx, "kept")).To(Equal("a"))
	})
})

// data returns the data of a ConfigMap.
func (s scene) data(ctx context.Context, name string) (map[string]string, error) {
	live := &corev1.ConfigMap{}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, live)
	return live.Data, err
}

func (s scene) value(ctx context.Context, name string) (string, error) {
	data, err := s.data(ctx, name)
	return data["value"], err
}

// finalizers sets the finalizers of a ConfigMap, which may no longer exist.
func (s scene) finalizers(ctx context.Context, name string, finalizers ...string) {
	GinkgoHelper()
	document := `{"metadata": {"finalizers": null}}`
	if len(finalizers) > 0 {
		document = fmt.Sprintf(`{"metadata": {"finalizers": [%q]}}`, finalizers[0])
	}
	err := c.Client.Patch(ctx, s.configMap(name, ""), client.RawPatch("application/merge-patch+json", []byte(document)))
	if !apierrors.IsNotFound(err) {
		Expect(err).NotTo(HaveOccurred())
	}
}
