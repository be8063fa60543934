package applier_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

func compressed(e *managedresourcetest.Env, text string) []byte {
	var out bytes.Buffer
	writer := brotli.NewWriter(&out)
	_, err := writer.Write([]byte(text))
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(writer.Close()).To(Succeed())
	return out.Bytes()
}

func TestCompressedKeysAreRead(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		value := compressed(e, e.ConfigMap("c", "1")+"---\n"+e.ConfigMap("d", "1"))
		plain := e.ConfigMap("plain", "1")
		e.SecretData("mr", map[string][]byte{"data.yaml.br": value, "plain.yaml": []byte(plain)})
		e.Expect(e.Source.Create(e.Ctx, e.ManagedResource("mr", "mr"))).To(Succeed())
		mr := e.AwaitApplied("mr", "True/ApplySucceeded")
		e.Expect(names(mr)).To(Equal([]string{"v1/ConfigMap/c", "v1/ConfigMap/d", "v1/ConfigMap/plain"}))
		e.Expect(*mr.Status.SecretsDataChecksum).To(Equal(checksum(string(value) + string(value) + plain)))
		e.Edit("d", `{"data":{"key":"by hand"}}`)
		e.AwaitData("d", "1")
	})
}

func TestAnInvalidCompressedKeyIsReported(t *testing.T) {
	e := inOneCluster(t)
	e.SecretData("mr", map[string][]byte{"data.yaml.br": []byte(e.ConfigMap("c", "1")), "plain.yaml": []byte(e.ConfigMap("plain", "1"))})
	e.Expect(e.Source.Create(e.Ctx, e.ManagedResource("mr", "mr"))).To(Succeed())
	mr := e.AwaitApplied("mr", "False/DecodingFailed")
	e.Expect(managedresourcetest.Message(mr, "ResourcesApplied")).
		To(HavePrefix(e.Fill("Could not decode all new resources: [Could not decode resource at index 0 in 'data.yaml.br' in secret '$NS/mr': ")))
	e.AwaitData("plain", "1")
}

func TestTheRestartAnnotationOfAPodTemplateStays(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind, object, patch string
		manifest            func(e *managedresourcetest.Env, image string) string
		template            []string
	}{
		"Deployment": {
			kind: deploymentKind, object: "web", template: []string{"spec", "template"},
			manifest: func(e *managedresourcetest.Env, image string) string {
				return strings.Replace(webDeployment(e, "", "replicas: 0, ", ""), "image: i", "image: "+image, 1)
			},
			patch: `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"noon"}}}}}`,
		},
		"StatefulSet": {
			kind: statefulSetKind, object: "web", template: []string{"spec", "template"},
			manifest: func(e *managedresourcetest.Env, image string) string {
				return strings.Replace(webStatefulSet(e, "", "1Gi"), "image: i", "image: "+image, 1)
			},
			patch: `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"noon"}}}}}`,
		},
		"DaemonSet": {
			kind: "apps/v1/DaemonSet", object: "d", template: []string{"spec", "template"},
			manifest: func(e *managedresourcetest.Env, image string) string {
				return e.Fill(strings.Replace(defaulted["DaemonSet"].manifest, `"i:latest"`, image, 1))
			},
			patch: `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"noon"}}}}}`,
		},
		"CronJob": {
			kind: "batch/v1/CronJob", object: "nightly", template: []string{"spec", "jobTemplate", "spec", "template"},
			manifest: func(e *managedresourcetest.Env, image string) string {
				return strings.Replace(nightlyCronJob(e), "image: i", "image: "+image, 1)
			},
			patch: `{"spec":{"jobTemplate":{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"noon"}}}}}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := withoutControllers(t)
			e.Set("mr", tc.manifest(e, "one"))
			before := e.AwaitApplied("mr", "True/ApplySucceeded")
			e.Patch(tc.kind, tc.object, tc.patch)
			e.Expect(e.Look("mr")).To(BeEmpty())
			e.Secret("mr", tc.manifest(e, "two"))
			e.AwaitChange(before)
			live := e.Live(tc.kind, tc.object)
			e.Expect(managedresourcetest.Field(live, append(tc.template, "metadata", "annotations")...)).
				To(Equal(map[string]any{"kubectl.kubernetes.io/restartedAt": "noon"}))
			containers, _ := managedresourcetest.Field(live, append(tc.template, "spec", "containers")...).([]any)
			e.Expect(containers).To(HaveExactElements(HaveKeyWithValue("image", "two")))
		})
	}
}

func TestOneInstanceMayServeAllClasses(t *testing.T) {
	t.Parallel()
	e := managedresourcetest.New(t, managedresourcetest.Options{Configure: func(c *config.ResourceManagerConfiguration) {
		longSyncPeriod(c)
		c.Controllers.ResourceClass = ptr.To("*")
	}})
	for name, class := range map[string]*string{"none": nil, "empty": ptr.To(""), "default": ptr.To("resources"), "seed": ptr.To("seed")} {
		e.Secret(name, e.ConfigMap(name, "1"))
		mr := e.ManagedResource(name, name)
		mr.Spec.Class = class
		e.Expect(e.Source.Create(e.Ctx, mr)).To(Succeed())
		mr = e.AwaitApplied(name, "True/ApplySucceeded")
		e.Expect(mr.Finalizers).To(Equal([]string{"resources.gardener.cloud/gardener-resource-manager"}))
	}
	before := e.LiveConfigMap("seed")
	e.Change("seed", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = ptr.To("other") })
	e.AwaitApplied("seed", "True/ApplySucceeded")
	e.Expect(e.LiveConfigMap("seed").UID).To(Equal(before.UID))
	e.Delete("seed")
	e.AwaitGone("seed")
	e.Expect(e.LiveConfigMap("seed")).To(BeNil())
}

func TestASetIsAppliedWhenAnotherInstanceRemovesItsFinalizer(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		e.Secret("mr", e.ConfigMap("c", "1"))
		mr := e.ManagedResource("mr", "mr")
		mr.Finalizers = []string{"resources.gardener.cloud/gardener-resource-manager-seed", "example.test/hold"}
		e.Expect(e.Source.Create(e.Ctx, mr)).To(Succeed())
		e.Fence()
		e.Expect(e.Get("mr")).To(BeComparableTo(mr))
		e.Expect(e.LiveConfigMap("c")).To(BeNil())
		e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Finalizers = []string{"example.test/hold"} })
		e.AwaitApplied("mr", "True/ApplySucceeded")
		e.Expect(e.Get("mr").Finalizers).To(ConsistOf("resources.gardener.cloud/gardener-resource-manager", "example.test/hold"))
		e.Expect(e.LiveConfigMap("c")).NotTo(BeNil())
	})
}

// unchangeable returns an immutable ConfigMap, which is replaced instead of updated.
func unchangeable(e *managedresourcetest.Env, value, propagation string) string {
	annotations := `annotations: {resources.gardener.cloud/delete-on-invalid-update: "true"` + propagation + "}"
	return e.ConfigMap("c", value, annotations) + "immutable: true\n"
}

func TestTheDeletionAfterAnInvalidUpdateUsesTheConfiguredPropagation(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ propagation, want string }{
		"by default":        {},
		"in the background": {propagation: "Background", want: "Background"},
		"in the foreground": {propagation: "Foreground", want: "Foreground"},
		"not at all":        {propagation: "Orphan", want: "Orphan"},
	} {
		t.Run(name, func(t *testing.T) {
			e := inOneCluster(t)
			annotation := ""
			if tc.propagation != "" {
				annotation = ", resources.gardener.cloud/deletion-propagation-on-invalid-update: " + tc.propagation
			}
			e.Set("mr", unchangeable(e, "1", annotation))
			before := e.AwaitApplied("mr", "True/ApplySucceeded")
			uid := e.LiveConfigMap("c").UID
			recording := e.Requests.Record()
			e.Secret("mr", unchangeable(e, "2", annotation))
			e.AwaitChange(before)
			live := e.LiveConfigMap("c")
			e.Expect(live.Data).To(Equal(map[string]string{"key": "2"}))
			e.Expect(live.UID).NotTo(Equal(uid))
			sent := recording.RequestsTo("DELETE", e.Fill("/api/v1/namespaces/$NS/configmaps/c"))
			e.Expect(sent).To(HaveLen(1))
			policy, _ := sent[0].Body["propagationPolicy"].(string)
			e.Expect(policy).To(Equal(tc.want))
			e.Expect(managedresourcetest.Field(&unstructured.Unstructured{Object: sent[0].Body}, "preconditions", "uid")).To(BeEquivalentTo(uid))
		})
	}
}

func TestTheDeletionAfterAnInvalidUpdateIsRequestedOnce(t *testing.T) {
	e := inOneCluster(t)
	e.Set("mr", unchangeable(e, "1", ""))
	before := e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Edit("c", `{"metadata":{"finalizers":["example.org/wait"]}}`)
	recording := e.Requests.Record()
	e.Secret("mr", unchangeable(e, "2", ""))
	path := e.Fill("/api/v1/namespaces/$NS/configmaps/c")
	e.Eventually(func() int { return len(recording.RequestsTo("PUT", path)) }).
		WithTimeout(managedresourcetest.Patience).Should(BeNumerically(">=", 3))
	e.Expect(recording.RequestsTo("DELETE", path)).To(HaveLen(1))
	e.Edit("c", `{"metadata":{"finalizers":null}}`)
	e.AwaitChange(before)
	e.Expect(e.LiveConfigMap("c").Data).To(Equal(map[string]string{"key": "2"}))
}

func TestAnUnknownPropagationIsReported(t *testing.T) {
	e := inOneCluster(t)
	const annotation = ", resources.gardener.cloud/deletion-propagation-on-invalid-update: Sometimes"
	e.Set("mr", unchangeable(e, "1", annotation))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	uid := e.LiveConfigMap("c").UID
	e.Secret("mr", unchangeable(e, "2", annotation))
	mr := e.AwaitApplied("mr", "False/ApplyFailed")
	e.Expect(managedresourcetest.Message(mr, "ResourcesApplied")).
		To(Equal(e.Fill(`error deleting object "v1/ConfigMap/$NS/c" after 'invalid' update error: ` +
			`annotation resources.gardener.cloud/deletion-propagation-on-invalid-update has value "Sometimes", allowed are Background, ` +
			`Foreground and Orphan ` +
			`(index 0 in 'objects.yaml' in secret '$NS/mr')`)))
	live := e.LiveConfigMap("c")
	e.Expect(live.UID).To(Equal(uid))
	e.Expect(live.Data).To(Equal(map[string]string{"key": "1"}))
}
