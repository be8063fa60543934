package applier_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

func TestUnusualContentOfSets(t *testing.T) {
	t.Parallel()
	runAll(t, map[string]testCase{
		"no Secret at all":                                            {run: noSecrets},
		"a missing Secret deletes nothing":                            {run: missingSecretDeletesNothing},
		"a set is applied at once when its missing Secret is created": {run: missingSecretAppears},
		"an empty Secret":                                             {run: emptySecret(map[string][]byte{})},
		"a Secret with comments only": {run: emptySecret(map[string][]byte{"a": []byte("# nothing\n---\n# " +
			"here\n"), "b": {}})},
		"one bad document among good ones":                          {run: badAmongGood},
		"a manifest without kind, and another one that fails early": {run: withoutKind},
		"a definition comes before its custom resource":             {run: definitionFirst, everywhere: true},
		"a definition and its custom resource in two sets":          {run: definitionInAnotherSet, everywhere: true},
		"a kind that begins with a small letter":                    {run: smallLetter, everywhere: true},
		"a cluster-scoped object with a namespace":                  {run: priorityClassWithNamespace},
		"an object without namespace of a kind not yet served":      {run: gadgetWithoutNamespace},
		"obsolete objects that are not gone yet delay new objects":  {run: pendingDeletionsDelayNewObjects},
		"an object whose kind is no longer served":                  {run: kindNoLongerServed},
	})
}

func TestObjectsThatOtherClientsOrTheManifestChange(t *testing.T) {
	t.Parallel()
	runAll(t, map[string]testCase{
		"an object that is deleted by hand":                                 {run: deletedByHand, everywhere: true},
		"an object that is edited by hand":                                  {run: editedByHand, everywhere: true},
		"a user's own label and annotation":                                 {run: ownLabel},
		"a user's own label and annotation when overwriting is configured":  {run: ownLabelOverwritten},
		"a label that is dropped from the manifest":                         {run: droppedLabel},
		"a label that is dropped from the manifest after a user changed it": {run: droppedLabelChanged},
		"a label that moves from the manifest to injectLabels":              {run: movedLabel},
		"injectLabels with the managed-by label":                            {run: injectedManagedBy},
		"an immutable ConfigMap that changes":                               {run: changedImmutable("ConfigMap", "data")},
		"an immutable Secret that changes":                                  {run: changedImmutable("Secret", "stringData")},
		"a selector that changes":                                           {run: changedSelector},
		"a selector that changes, with delete-on-invalid-update":            {run: changedSelectorReplaced},
		"delete-on-invalid-update and a valid update":                       {run: validUpdate},
		"keep-object dropped together with the object":                      {run: keepObjectDropped},
		"a collectable object that is no ConfigMap and no Secret":           {run: otherCollectable, configure: collecting},
		"a collectable ConfigMap without garbage collector":                 {run: collectableWithoutCollector},
		"a set that is ignored and then deleted":                            {run: ignoredAndDeleted},
	})
}

const checksumOfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func (a *setTest) expectEmptySet() {
	a.T.Helper()
	mr := a.AwaitApplied("mr", "True/ApplySucceeded")
	a.Expect(mr.Status.Resources).To(BeEmpty())
	a.Expect(mr.Status.SecretsDataChecksum).To(HaveValue(Equal(checksumOfNothing)))
	a.Expect(mr.Status.ObservedGeneration).To(Equal(mr.Generation))
	a.expectNoWrites()
}

func noSecrets(a *setTest) {
	a.set(a.ConfigMap("c", "1"))
	a.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.SecretRefs = []corev1.LocalObjectReference{} })
	a.awaitAbsent("c")
	a.expectEmptySet()
}

func missingSecretDeletesNothing(a *setTest) {
	before := a.set(a.ConfigMap("c", "1"))
	a.Secret("second", a.ConfigMap("d", "1"))
	a.Requests.Reset()
	a.Expect(a.Source.Delete(a.Ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: "mr"}})).To(Succeed())
	a.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Spec.SecretRefs = []corev1.LocalObjectReference{{Name: "second"}, {Name: "mr"}}
	})
	mr := a.AwaitApplied("mr", "False/CannotReadSecret")
	a.soon(a.readsOfSecret).Should(BeNumerically(">=", 4))
	a.Expect(mr.Status.Resources).To(BeComparableTo(before.Status.Resources))
	a.Expect(a.live("c").Data).To(Equal(map[string]string{"key": "1"}))
	a.Expect(a.LiveConfigMap("d")).To(BeNil())
}

func missingSecretAppears(a *setTest) {
	a.Expect(a.Source.Create(a.Ctx, a.ManagedResource("mr", "mr"))).To(Succeed())
	a.soon(a.readsOfSecret).WithTimeout(2 * managedresourcetest.Patience).Should(BeNumerically(">=", 12)) // the pause is 10 s now, and doubles
	a.Secret("mr", a.ConfigMap("c", "1"))
	// The object exists before the pause is over.
	a.Eventually(func() *corev1.ConfigMap { return a.LiveConfigMap("c") }).WithTimeout(8 * time.Second).ShouldNot(BeNil())
	a.AwaitApplied("mr", "True/ApplySucceeded")
}

func emptySecret(data map[string][]byte) func(a *setTest) {
	return func(a *setTest) {
		a.set(a.ConfigMap("c", "1"))
		a.SecretData("mr", data)
		a.awaitAbsent("c")
		a.expectEmptySet()
	}
}

func badAmongGood(a *setTest) {
	a.set(a.ConfigMap("c", "1"), a.ConfigMap("d", "1"))
	a.Secret("mr", a.ConfigMap("e", "1"), "- a\n- list", a.ConfigMap("d", "2"))
	a.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.InjectLabels = map[string]string{"a": "b"} })
	var mr *resourcesv1alpha1.ManagedResource
	a.soon(func() int64 {
		mr = a.AwaitApplied("mr", "False/DecodingFailed")
		return mr.Status.ObservedGeneration
	}).Should(Equal(int64(2)))
	a.Expect(managedresourcetest.Message(mr, "ResourcesApplied")).To(Equal(
		"Could not decode all new resources: [Could not decode resource at index 1 in 'objects.yaml' in secret '" + a.Namespace +
			"/mr': document is not an object.]"))
	a.Expect(listed(mr)).To(Equal(a.listedMaps("c", "d", "e")))
	a.Expect(a.live("c").Data).To(Equal(map[string]string{"key": "1"}))
	a.Expect(a.live("d").Data).To(Equal(map[string]string{"key": "2"}))
	a.Expect(a.live("e").Data).To(Equal(map[string]string{"key": "1"}))
	a.expectNoWrites()
	objects := "GET /api/v1/namespaces/" + a.Namespace + "/configmaps/"
	a.soon(a.Requests.Seen).Should(ContainElements(objects+"d", objects+"e"))
	a.Requests.Reset()
	a.Consistently(a.Requests.Seen).WithTimeout(time.Second).Should(BeEmpty())
	a.Expect(a.LiveConfigMap("c")).NotTo(BeNil())
}

func withoutKind(a *setTest) {
	misnamed := fmt.Sprintf("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: Not_Allowed, namespace: %s}", a.Namespace)
	a.Set("mr", "apiVersion: v1\nmetadata: {name: kindless}", a.ConfigMap("c", "1"), a.deployment("web", "web"), misnamed)
	mr := a.AwaitApplied("mr", "False/ApplyFailed")
	a.Expect(managedresourcetest.Message(mr, "ResourcesApplied")).To(MatchRegexp(
		`^.+ \(index 0 in 'objects.yaml' in secret '%[1]s/mr'\); error during apply of object "v1/ServiceAccount/%[1]s/Not_Allowed": .+ `+
			`\(index 3 in 'objects.yaml' in secret '%[1]s/mr'\)$`, a.Namespace))
	a.Expect(a.live("c").Data).To(Equal(map[string]string{"key": "1"}))
	a.Expect(a.read("apps/v1", "Deployment", a.Namespace, "web").GetName()).To(Equal("web"))
	a.replace(a.ConfigMap("c", "2"), a.deployment("web", "web"))
}

func definitionFirst(a *setTest) {
	a.Grant(a.gadgets(), "gadgets")
	a.set(a.gadget(a.Namespace, "g"), a.definition())
	a.Expect(slices.Compact(a.creations())).To(Equal([]string{"customresourcedefinitions", "gadgets"}))
	a.Requests.Reset()
	a.delete()
	a.AwaitGone("mr")
	var deletions []string
	for _, each := range a.Requests.Seen() {
		if path, isDeletion := strings.CutPrefix(each, "DELETE "); isDeletion {
			deletions = append(deletions, strings.Split(path, "/")[len(strings.Split(path, "/"))-2])
		}
	}
	deletions = slices.Compact(deletions) // one that meets a status update is sent again
	a.Expect(deletions).To(Equal([]string{"gadgets", "customresourcedefinitions"}))
}

func definitionInAnotherSet(a *setTest) {
	a.Grant(a.gadgets(), "gadgets")
	a.Set("mr", a.gadget(a.Namespace, "g"))
	mr := a.AwaitApplied("mr", "False/ApplyFailed")
	a.Expect(managedresourcetest.Message(mr, "ResourcesApplied")).To(ContainSubstring("no matches for kind"))
	a.Set("kind", a.definition())
	a.AwaitApplied("mr", "True/ApplySucceeded")
	a.Expect(a.read(a.gadgets()+"/v1", "Gadget", a.Namespace, "g").GetName()).To(Equal("g"))
	a.expectNoWrites()
}

// The API server accepts such kinds, and lists of them.
func smallLetter(a *setTest) {
	a.Grant(a.gadgets(), "gadgets")
	written := func(text string) string {
		return strings.NewReplacer("kind: Gadget", "kind: gadget", "listKind: GadgetList", "listKind: gadgetList").Replace(text)
	}
	size := func() any {
		return managedresourcetest.Field(a.read(a.gadgets()+"/v1", "gadget", a.Namespace, "g"), "spec", "size")
	}
	a.set(written(a.definition()), written(a.gadget(a.Namespace, "g")))
	a.Expect(size()).To(Equal(int64(1)))
	a.Patch(a.gadgets()+"/v1/gadget", "g", `{"spec":{"size":5}}`)
	a.soon(size).Should(Equal(int64(1)))
	a.replace(written(a.definition()), strings.Replace(written(a.gadget(a.Namespace, "g")), "size: 1", "size: 2", 1))
	a.Expect(size()).To(Equal(int64(2)))
	a.expectNoWrites()
	a.delete()
	a.AwaitGone("mr")
}

func priorityClassWithNamespace(a *setTest) {
	mr := a.set(fmt.Sprintf("apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: %[1]s, namespace: %[1]s}\nvalue: 5",
		a.Namespace))
	a.Expect(a.read("scheduling.k8s.io/v1", "PriorityClass", "", a.Namespace).GetName()).To(Equal(a.Namespace))
	a.Expect(listed(mr)).To(Equal([]string{"scheduling.k8s.io/v1/PriorityClass//" + a.Namespace}))
	a.expectNoWrites()
}

func gadgetWithoutNamespace(a *setTest) {
	a.Grant(a.gadgets(), "gadgets")
	mr := a.set(a.gadget("", "g"), a.definition())
	a.Expect(a.read(a.gadgets()+"/v1", "Gadget", "default", "g").GetName()).To(Equal("g"))
	a.Expect(listed(mr)).To(ContainElement(a.gadgets() + "/v1/Gadget/default/g"))
	a.expectNoWrites()
}

func pendingDeletionsDelayNewObjects(a *setTest) {
	a.set(a.ConfigMap("c", "1"), a.ConfigMap("d", "1"), a.ConfigMap("e", "1"))
	a.blockDeletion("c")
	a.blockDeletion("d")
	a.Secret("mr", a.ConfigMap("f", "1"))
	pending := func(name string) string {
		return `deletion of old resource "v1/ConfigMap/` + a.Namespace + "/" + name + `" is still pending`
	}
	message := func() string { return managedresourcetest.Message(a.Get("mr"), "ResourcesApplied") }
	a.soon(message).Should(Equal("Could not clean all old resources: 2 errors occurred: [" + pending("c") + ", " + pending("d") + "]"))
	a.Expect(a.LiveConfigMap("e")).To(BeNil())
	a.unblockDeletion("d")
	a.soon(message).Should(Equal("Could not clean all old resources: 1 error occurred: " + pending("c")))
	a.Expect(a.LiveConfigMap("f")).To(BeNil())
	a.Expect(listed(a.Get("mr"))).To(ContainElements(a.listedMaps("c", "f")))
	a.unblockDeletion("c")
	mr := a.AwaitApplied("mr", "True/ApplySucceeded")
	a.Expect(listed(mr)).To(Equal(a.listedMaps("f")))
	a.expectNoWrites()
}

func kindNoLongerServed(a *setTest) {
	a.Grant(a.gadgets(), "gadgets")
	a.Secret("kind", a.definition())
	a.Expect(a.Source.Create(a.Ctx, a.ManagedResource("kind", "kind"))).To(Succeed())
	a.AwaitApplied("kind", "True/ApplySucceeded")
	a.set(a.gadget(a.Namespace, "g"), a.ConfigMap("c", "1"))
	a.Expect(a.Source.Delete(a.Ctx, a.ManagedResource("kind"))).To(Succeed())
	a.AwaitGone("kind")
	mr := a.replace(a.ConfigMap("c", "1"))
	a.Expect(listed(mr)).To(Equal(a.listedMaps("c")))
	a.expectNoWrites()
}

func deletedByHand(a *setTest) {
	a.set(a.ConfigMap("c", "1"))
	before := a.live("c")
	a.Expect(a.Target.Delete(a.Ctx, before.DeepCopy())).To(Succeed())
	a.AwaitData("c", "1")
	a.Expect(a.live("c").UID).NotTo(Equal(before.UID))
	a.expectNoWrites()
}

func editedByHand(a *setTest) {
	a.set(a.ConfigMap("c", "1", "labels: {a: b}"))
	a.Edit("c", `{"data":{"key":"2","more":"3"},"metadata":{"labels":{"a":"c"}}}`)
	a.soon(func(g Gomega) {
		live := a.live("c")
		g.Expect(live.Data).To(Equal(map[string]string{"key": "1"}))
		g.Expect(live.Labels).To(Equal(map[string]string{"a": "b", "resources.gardener.cloud/managed-by": "gardener"}))
	}).Should(Succeed())
	a.expectNoWrites()
}

const usersOwn = `{"metadata":{"labels":{"own":"x"},"annotations":{"note":"y"}}}`

func ownLabel(a *setTest) {
	a.set(a.ConfigMap("c", "1"))
	a.Requests.Reset()
	a.Edit("c", usersOwn)
	a.soon(a.Requests.Seen).Should(ContainElement("GET /api/v1/namespaces/" + a.Namespace + "/configmaps/c"))
	a.expectNoWrites()
	a.replace(a.ConfigMap("c", "2"))
	live := a.live("c")
	a.Expect(live.Labels).To(HaveKeyWithValue("own", "x"))
	a.Expect(live.Annotations).To(HaveKeyWithValue("note", "y"))
}

func ownLabelOverwritten(a *setTest) {
	a.Secret("mr", a.ConfigMap("c", "1"))
	mr := a.ManagedResource("mr", "mr")
	mr.Spec.ForceOverwriteLabels, mr.Spec.ForceOverwriteAnnotations = new(true), new(true)
	a.Expect(a.Source.Create(a.Ctx, mr)).To(Succeed())
	a.AwaitApplied("mr", "True/ApplySucceeded")
	before := a.live("c")
	a.Edit("c", usersOwn)
	a.soon(func(g Gomega) {
		live := a.live("c")
		g.Expect(live.Labels).To(Equal(before.Labels))
		g.Expect(live.Annotations).To(Equal(before.Annotations))
	}).Should(Succeed())
	a.expectNoWrites()
}

func droppedLabel(a *setTest) {
	a.set(a.ConfigMap("c", "1", "labels: {a: '1', b: '1'}", "annotations: {c: '1', d: '1'}"))
	a.replace(a.ConfigMap("c", "1", "labels: {b: '1'}", "annotations: {d: '1'}"))
	live := a.live("c")
	a.Expect(live.Labels).To(Equal(map[string]string{"b": "1", "resources.gardener.cloud/managed-by": "gardener"}))
	a.Expect(live.Annotations).To(HaveKey("d"))
	a.Expect(live.Annotations).NotTo(HaveKey("c"))
	a.expectNoWrites()
}

// Drift is repaired at once, so the other value stays only if it is written together with the change of the manifest.
func droppedLabelChanged(a *setTest) {
	a.set(a.ConfigMap("c", "1", "labels: {a: '1'}"))
	a.Restart(func() {
		a.Edit("c", `{"metadata":{"labels":{"a":"2"}}}`)
		a.Secret("mr", a.ConfigMap("c", "2"))
	})
	a.AwaitData("c", "2")
	a.AwaitApplied("mr", "True/ApplySucceeded")
	a.Expect(a.live("c").Labels).To(Equal(map[string]string{"a": "2", "resources.gardener.cloud/managed-by": "gardener"}))
	a.expectNoWrites()
}

func movedLabel(a *setTest) {
	a.set(a.ConfigMap("c", "1", "labels: {a: '1'}"))
	a.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.InjectLabels = map[string]string{"a": "1"} })
	a.AwaitApplied("mr", "True/ApplySucceeded")
	a.replace(a.ConfigMap("c", "1"))
	a.Expect(a.live("c").Labels).To(Equal(map[string]string{"a": "1", "resources.gardener.cloud/managed-by": "gardener"}))
	a.expectNoWrites()
}

func injectedManagedBy(a *setTest) {
	a.Secret("mr", a.deployment("web", "web"))
	mr := a.ManagedResource("mr", "mr")
	mr.Spec.InjectLabels = map[string]string{"resources.gardener.cloud/managed-by": "foo", "a": "b"}
	a.Expect(a.Source.Create(a.Ctx, mr)).To(Succeed())
	a.AwaitApplied("mr", "True/ApplySucceeded")
	live := a.read("apps/v1", "Deployment", a.Namespace, "web")
	a.Expect(live.GetLabels()).To(Equal(map[string]string{"a": "b", "resources.gardener.cloud/managed-by": "gardener"}))
	a.Expect(live.Object).To(HaveKeyWithValue("spec", HaveKeyWithValue("template", HaveKeyWithValue("metadata", HaveKeyWithValue("labels",
		Equal(map[string]any{"a": "b", "app": "web", "resources.gardener.cloud/managed-by": "gardener"}))))))
	a.expectNoWrites()
}

func changedImmutable(kind, data string) func(a *setTest) {
	return func(a *setTest) {
		manifest := func(value string) string {
			return fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata: {name: x, namespace: %s}\nimmutable: true\n%s: {key: %s}", kind, a.Namespace,
				data, value)
		}
		a.set(manifest("first"))
		before := a.read("v1", kind, a.Namespace, "x")
		a.replace(manifest("second"))
		after := a.read("v1", kind, a.Namespace, "x")
		a.Expect(after.GetUID()).NotTo(Equal(before.GetUID()))
		a.Expect(after.Object["data"]).NotTo(Equal(before.Object["data"]))
		a.expectNoWrites()
	}
}

func changedSelector(a *setTest) {
	a.set(a.deployment("web", "web"), a.ConfigMap("c", "1"))
	before := a.read("apps/v1", "Deployment", a.Namespace, "web")
	a.Secret("mr", a.deployment("web", "other"), a.ConfigMap("c", "2"))
	mr := a.AwaitApplied("mr", "False/ApplyFailed")
	a.Expect(managedresourcetest.Message(mr, "ResourcesApplied")).To(And(
		HavePrefix(`error during apply of object "apps/v1/Deployment/`+a.Namespace+`/web": `), ContainSubstring("field is immutable"),
		HaveSuffix(" (index 0 in 'objects.yaml' in secret '"+a.Namespace+"/mr')")))
	a.AwaitData("c", "2")
	a.Expect(a.read("apps/v1", "Deployment", a.Namespace, "web").GetUID()).To(Equal(before.GetUID()))
	a.replace(a.deployment("web", "web"), a.ConfigMap("c", "3"))
}

func changedSelectorReplaced(a *setTest) {
	a.set(a.deployment("web", "web", deleteOnInvalid))
	before := a.read("apps/v1", "Deployment", a.Namespace, "web")
	a.replace(a.deployment("web", "other", deleteOnInvalid))
	after := a.read("apps/v1", "Deployment", a.Namespace, "web")
	a.Expect(after.GetUID()).NotTo(Equal(before.GetUID()))
	a.Expect(after.Object).To(HaveKeyWithValue("spec", HaveKeyWithValue("selector",
		Equal(map[string]any{"matchLabels": map[string]any{"app": "other"}}))))
	a.expectNoWrites()
}

func validUpdate(a *setTest) {
	a.set(a.deployment("web", "web", deleteOnInvalid), a.ConfigMap("c", "1", deleteOnInvalid))
	before, c := a.read("apps/v1", "Deployment", a.Namespace, "web"), a.live("c")
	a.replace(strings.ReplaceAll(a.deployment("web", "web", deleteOnInvalid), "example.com/image", "example.com/other"),
		a.ConfigMap("c", "2", deleteOnInvalid))
	after := a.read("apps/v1", "Deployment", a.Namespace, "web")
	a.Expect(after.GetUID()).To(Equal(before.GetUID()))
	a.Expect(after.GetGeneration()).To(Equal(before.GetGeneration() + 1))
	a.Expect(a.live("c").UID).To(Equal(c.UID))
	a.expectNoWrites()
}

func keepObjectDropped(a *setTest) {
	keep := func(name string) string {
		return a.ConfigMap(name, "1", `annotations: {resources.gardener.cloud/keep-object: "true"}`)
	}
	a.set(keep("c"), keep("d"), a.ConfigMap("e", "1"))
	before := a.live("c")
	a.replace(a.ConfigMap("d", "1"), a.ConfigMap("e", "1"))
	a.Expect(a.live("c")).To(BeComparableTo(before))
	a.replace(a.ConfigMap("e", "1"))
	a.Expect(a.LiveConfigMap("d")).To(BeNil()) // its annotation had been taken away before
	a.Expect(a.live("c")).To(BeComparableTo(before))
}

const collectableLabel = `labels: {resources.gardener.cloud/garbage-collectable-reference: "true"}`

func otherCollectable(a *setTest) {
	account := fmt.Sprintf("apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: sa\n  namespace: %s\n  %s", a.Namespace, collectableLabel)
	a.set(account, a.ConfigMap("c", "1", collectableLabel), a.ConfigMap("d", "1"))
	before := a.live("c")
	a.replace(a.ConfigMap("d", "1"))
	a.Expect(a.read("v1", "ServiceAccount", a.Namespace, "sa").Object).To(BeEmpty())
	a.Expect(a.live("c")).To(BeComparableTo(before))
}

func collectableWithoutCollector(a *setTest) {
	a.set(a.ConfigMap("c", "1", collectableLabel), a.ConfigMap("d", "1"))
	a.replace(a.ConfigMap("d", "1"))
	a.Expect(a.LiveConfigMap("c")).To(BeNil())
}

func ignoredAndDeleted(a *setTest) {
	a.set(a.ConfigMap("c", "1"))
	a.annotate("resources.gardener.cloud/ignore", "true")
	a.AwaitApplied("mr", "True/ManagedResourceIgnored")
	a.delete()
	a.AwaitGone("mr")
	a.Expect(a.LiveConfigMap("c")).To(BeNil())
}

func TestNothingIsDeletedWhenOnlyYAMLSeesADocument(t *testing.T) {
	e := withoutControllers(t)
	one, two := e.ConfigMap("one", "1"), e.ConfigMap("two", "1")
	e.Set("mr", one, two)
	e.AwaitApplied("mr", "True/ApplySucceeded")
	for _, text := range map[string]string{
		"the end of a document":     strings.TrimSpace(one) + "\n...\n" + two,
		"line ends of old systems":  strings.ReplaceAll(strings.TrimSpace(one)+"\n---\n"+two, "\n", "\r"),
		"a line separator":          strings.TrimSpace(one) + "\u2028---\n" + two,
		"a remark with a next line": strings.TrimSpace(one) + "\n--- # remark\u0085" + strings.ReplaceAll(two, "\n", "\u0085"),
	} {
		e.SecretData("mr", map[string][]byte{"objects.yaml": []byte(text)})
		e.AwaitApplied("mr", "False/DecodingFailed")
		e.Expect(e.LiveConfigMap("two")).NotTo(BeNil())
		e.Secret("mr", one, two)
		e.AwaitApplied("mr", "True/ApplySucceeded")
	}
}
