package applier_test

import (
	"maps"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// injecting creates a set with labels to inject.
func injecting(e *managedresourcetest.Env, labels map[string]string, documents ...string) {
	e.Secret("mr", documents...)
	mr := e.ManagedResource("mr", "mr")
	mr.Spec.InjectLabels = labels
	e.Expect(e.Source.Create(e.Ctx, mr)).To(Succeed())
	e.AwaitApplied("mr", "True/ApplySucceeded")
}

func TestLabelsAreInjectedIntoADeploymentAndItsPodTemplate(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		injecting(e, map[string]string{"foo": "bar"}, webDeployment(e, "labels: {own: yes1}, ", "replicas: 0, ", ""))
		live := e.Live(deploymentKind, "web")
		e.Expect(live.GetLabels()).To(Equal(map[string]string{"own": "yes1", "foo": "bar", "resources.gardener.cloud/managed-by": "gardener"}))
		e.Expect(managedresourcetest.Field(live, "spec", "template", "metadata", "labels")).To(Equal(map[string]any{
			"app": "web", "foo": "bar", "resources.gardener.cloud/managed-by": "gardener",
		}))
		e.Expect(managedresourcetest.Field(live, "spec", "selector")).To(Equal(map[string]any{"matchLabels": map[string]any{"app": "web"}}))
	})
}

func TestLabelsAreInjectedIntoVolumeClaimTemplates(t *testing.T) {
	e := inOneCluster(t)
	injecting(e, map[string]string{"foo": "bar"}, webStatefulSet(e, "", "1Gi"))
	live := e.Live(statefulSetKind, "web")
	claims, ok := managedresourcetest.Field(live, "spec", "volumeClaimTemplates").([]any)
	e.Expect(ok).To(BeTrue())
	e.Expect(claims).To(HaveLen(1))
	want := map[string]any{"foo": "bar", "resources.gardener.cloud/managed-by": "gardener"}
	e.Expect(claims[0]).To(HaveKeyWithValue("metadata", HaveKeyWithValue("labels", want)))
	e.Expect(managedresourcetest.Field(live, "spec", "template", "metadata", "labels")).To(Equal(map[string]any{
		"app": "web", "foo": "bar", "resources.gardener.cloud/managed-by": "gardener",
	}))
}

func TestTheManagedByLabelCannotBeInjected(t *testing.T) {
	e := inOneCluster(t)
	injecting(e, map[string]string{"resources.gardener.cloud/managed-by": "foo"}, webDeployment(e, "", "replicas: 0, ", ""))
	live := e.Live(deploymentKind, "web")
	e.Expect(live.GetLabels()).To(Equal(map[string]string{"resources.gardener.cloud/managed-by": "gardener"}))
	e.Expect(managedresourcetest.Field(live, "spec", "template", "metadata", "labels")).
		To(Equal(map[string]any{"app": "web", "resources.gardener.cloud/managed-by": "gardener"}))
}

func TestNoLabelsAreInjectedIntoTheJobTemplateOfACronJob(t *testing.T) {
	e := inOneCluster(t)
	injecting(e, map[string]string{"foo": "bar"}, nightlyCronJob(e))
	live := e.Live("batch/v1/CronJob", "nightly")
	e.Expect(live.GetLabels()).To(Equal(map[string]string{"foo": "bar", "resources.gardener.cloud/managed-by": "gardener"}))
	e.Expect(managedresourcetest.Field(live, "spec", "jobTemplate", "metadata", "labels")).To(Equal(map[string]any{"app": "nightly"}))
	e.Expect(managedresourcetest.Field(live, "spec", "jobTemplate", "spec", "template", "metadata", "labels")).
		To(Equal(map[string]any{"app": "nightly"}))
}

const managedBy = "resources.gardener.cloud/managed-by"

func TestALabelOfAUserStaysUnlessLabelsAreForced(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		e.Set("mr", e.ConfigMap("c", "1"))
		before := e.AwaitApplied("mr", "True/ApplySucceeded")
		e.Edit("c", `{"metadata":{"labels":{"mine":"yes"}}}`)
		e.Expect(e.Look("mr")).To(BeEmpty())
		e.Secret("mr", e.ConfigMap("c", "2"))
		e.AwaitChange(before)
		e.Expect(e.LiveConfigMap("c").Labels).To(Equal(map[string]string{"mine": "yes", managedBy: "gardener"}))

		e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.ForceOverwriteLabels = new(true) })
		e.AwaitApplied("mr", "True/ApplySucceeded")
		e.Expect(e.LiveConfigMap("c").Labels).To(Equal(map[string]string{managedBy: "gardener"}))
		e.Edit("c", `{"metadata":{"labels":{"mine":"again"}}}`)
		e.Await(configMapKind, "c", func(g Gomega, live *unstructured.Unstructured) {
			g.Expect(live.GetLabels()).To(Equal(map[string]string{managedBy: "gardener"}))
		})
	})
}

func TestAnAnnotationOfAUserStaysUnlessAnnotationsAreForced(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		own := map[string]string{
			"resources.gardener.cloud/origin": e.Namespace + "/mr",
			"resources.gardener.cloud/description": "DO NOT EDIT - This resource is managed by gardener-resource-manager.\n" +
				"Any modifications are discarded and the resource is returned to the original state.",
		}
		with := func(key, value string) map[string]string {
			joined := map[string]string{key: value}
			maps.Copy(joined, own)
			return joined
		}
		e.Set("mr", e.ConfigMap("c", "1"))
		before := e.AwaitApplied("mr", "True/ApplySucceeded")
		e.Edit("c", `{"metadata":{"annotations":{"mine":"yes"}}}`)
		e.Expect(e.Look("mr")).To(BeEmpty())
		e.Secret("mr", e.ConfigMap("c", "2"))
		e.AwaitChange(before)
		e.Expect(e.LiveConfigMap("c").Annotations).To(Equal(with("mine", "yes")))

		e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Spec.ForceOverwriteAnnotations = new(true)
		})
		e.AwaitApplied("mr", "True/ApplySucceeded")
		e.Expect(e.LiveConfigMap("c").Annotations).To(Equal(own))
		e.Edit("c", `{"metadata":{"annotations":{"mine":"again"}}}`)
		e.Await(configMapKind, "c", func(g Gomega, live *unstructured.Unstructured) { g.Expect(live.GetAnnotations()).To(Equal(own)) })
	})
}

func TestALabelThatTheManifestDropsIsRemoved(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		drop func(e *managedresourcetest.Env, documents ...string)
		want map[string]string
	}{
		"while the controller runs": {
			drop: func(e *managedresourcetest.Env, documents ...string) { e.Secret("mr", documents...) },
			want: map[string]string{managedBy: "gardener"},
		},
		"while it is stopped": {
			drop: func(e *managedresourcetest.Env, documents ...string) {
				e.Restart(func() { e.Secret("mr", documents...) })
			},
			want: map[string]string{managedBy: "gardener"},
		},
		"but not if it was changed in the same moment": {
			drop: func(e *managedresourcetest.Env, documents ...string) {
				e.Restart(func() {
					e.Edit("c", `{"metadata":{"labels":{"a":"2"},"annotations":{"a":"2"}}}`)
					e.Secret("mr", documents...)
				})
			},
			want: map[string]string{managedBy: "gardener", "a": "2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := inOneCluster(t)
			e.Set("mr", e.ConfigMap("c", "1", "labels: {a: '1'}", "annotations: {a: '1'}"))
			before := e.AwaitApplied("mr", "True/ApplySucceeded")
			e.Expect(e.LiveConfigMap("c").Labels).To(Equal(map[string]string{"a": "1", managedBy: "gardener"}))
			tc.drop(e, e.ConfigMap("c", "1"))
			e.AwaitChange(before)
			live := e.LiveConfigMap("c")
			e.Expect(live.Labels).To(Equal(tc.want))
			e.Expect(live.Annotations["a"]).To(Equal(tc.want["a"]))
		})
	}
}

func TestALabelThatMovesFromTheManifestToTheSetStays(t *testing.T) {
	e := inOneCluster(t)
	e.Set("mr", e.ConfigMap("c", "1", "labels: {a: '1'}"))
	before := e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Restart(func() {
		e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.InjectLabels = map[string]string{"a": "1"} })
		e.Secret("mr", e.ConfigMap("c", "1"))
	})
	e.AwaitChange(before)
	e.Expect(e.LiveConfigMap("c").Labels).To(Equal(map[string]string{"a": "1", managedBy: "gardener"}))
}

func TestAStaleReferenceAnnotationIsRemoved(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		e.Set("mr", e.ConfigMap("c", "1", "annotations: {reference.resources.gardener.cloud/secret-11111111: wanted}"))
		e.AwaitApplied("mr", "True/ApplySucceeded")
		want := e.LiveConfigMap("c").Annotations
		e.Expect(want).To(HaveKeyWithValue("reference.resources.gardener.cloud/secret-11111111", "wanted"))
		e.Edit("c", `{"metadata":{"annotations":{"reference.resources.gardener.cloud/secret-22222222":"stale","mine":"yes"}}}`)
		want["mine"] = "yes"
		e.Await(configMapKind, "c", func(g Gomega, live *unstructured.Unstructured) { g.Expect(live.GetAnnotations()).To(Equal(want)) })
	})
}
