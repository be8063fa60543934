package applier_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

func TestSetsAreApplied(t *testing.T) {
	t.Parallel()
	runAll(t, map[string]testCase{
		"a new set is applied":               {run: newSet, everywhere: true},
		"a cluster ID is part of the origin": {run: originWithClusterID, everywhere: true, configure: clusterID},
		"a missing Secret is reported, and the set is applied after its creation": {run: missingSecret},
		"a manifest without type cannot be applied":                               {run: typelessManifest},
		"a second manifest without type fails an applied set":                     {run: secondTypelessManifest},
		"changed data are applied and the health is checked again":                {run: changedData, everywhere: true},
		"an object under a new key of the Secret":                                 {run: newKey},
		"a second Secret": {run: secondSecret},
		"an obsolete object that is not gone yet delays new objects":  {run: pendingDeletionDelaysNewObjects},
		"a Secret that is written again unchanged causes no writes":   {run: unchangedSecret},
		"invalid YAML beside a valid object":                          {run: invalidBesideValid},
		"a document that becomes invalid keeps its object":            {run: becomesInvalid},
		"separators, comments and empty documents":                    {run: emptyDocuments},
		"a list is not unfolded":                                      {run: lists},
		"a namespaced object without namespace belongs to default":    {run: withoutNamespace, everywhere: true},
		"the namespace of a cluster-scoped object is removed":         {run: clusterScopedWithNamespace},
		"a definition and its custom resource in one set":             {run: definitionAndResource, everywhere: true},
		"the order of creation":                                       {run: creationOrder},
		"the order of the status, which is the same after every sync": {run: statusOrder},
	})
}

func newSet(a *setTest) {
	document := a.ConfigMap("c", "1", "labels: {a: b}", "annotations: {note: x}")
	a.set(document)
	a.step("its object exists", func(a *setTest) {
		a.Expect(a.live("c").Data).To(Equal(map[string]string{"key": "1"}))
		a.Expect(managedresourcetest.Message(a.Get("mr"), "ResourcesApplied")).To(Equal("All resources are applied."))
		a.Expect(a.conditions()).To(Equal(healthyAndApplied()))
	})
	a.step("it has the finalizer", func(a *setTest) {
		a.Expect(a.Get("mr").Finalizers).To(Equal([]string{"resources.gardener.cloud/gardener-resource-manager"}))
	})
	a.step("the object has the label and annotations of the set", func(a *setTest) {
		live := a.live("c")
		a.Expect(live.Annotations).To(Equal(map[string]string{
			"note":                            "x",
			"resources.gardener.cloud/origin": a.Namespace + "/mr",
			"resources.gardener.cloud/description": "DO NOT EDIT - This resource is managed by gardener-resource-manager.\n" +
				"Any modifications are discarded and the resource is returned to the original state.",
		}))
		a.Expect(live.Labels).To(Equal(map[string]string{"a": "b", "resources.gardener.cloud/managed-by": "gardener"}))
	})
	a.step("the status lists it", func(a *setTest) {
		mr, sum := a.Get("mr"), sha256.Sum256([]byte(document))
		a.Expect(mr.Status.Resources).To(BeComparableTo([]resourcesv1alpha1.ObjectReference{{
			ObjectReference: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: a.Namespace, Name: "c"},
			Labels:          map[string]string{"a": "b", "resources.gardener.cloud/managed-by": "gardener"},
			Annotations:     map[string]string{"note": "x"},
		}}))
		a.Expect(mr.Status.ObservedGeneration).To(Equal(mr.Generation))
		a.Expect(mr.Status.SecretsDataChecksum).To(HaveValue(Equal(hex.EncodeToString(sum[:]))))
	})
	a.step("a second reconciliation writes nothing", func(a *setTest) { a.expectNoWrites() })
}

func clusterID(cfg *config.ResourceManagerConfiguration) { cfg.Controllers.ClusterID = ptr.To("cid") }

func originWithClusterID(a *setTest) {
	a.set(a.ConfigMap("c", "1"))
	a.Expect(a.live("c").Annotations).To(HaveKeyWithValue("resources.gardener.cloud/origin", "cid:"+a.Namespace+"/mr"))
	a.expectNoWrites()
}

func missingSecret(a *setTest) {
	a.Expect(a.Source.Create(a.Ctx, a.ManagedResource("mr", "mr"))).To(Succeed())
	mr := a.AwaitApplied("mr", "False/CannotReadSecret")
	a.Expect(managedresourcetest.Message(mr, "ResourcesApplied")).To(ContainSubstring("'" + a.Namespace + "/mr'"))
	a.Secret("mr", a.ConfigMap("c", "1"))
	a.AwaitApplied("mr", "True/ApplySucceeded")
	a.AwaitData("c", "1")
}

func typelessManifest(a *setTest) {
	a.Set("mr", "metadata: {name: typeless}")
	mr := a.AwaitApplied("mr", "False/ApplyFailed")
	a.Expect(managedresourcetest.Message(mr, "ResourcesApplied")).
		To(HaveSuffix(" (index 0 in 'objects.yaml' in secret '" + a.Namespace + "/mr')"))
}

func secondTypelessManifest(a *setTest) {
	a.set(a.ConfigMap("c", "1"))
	a.Secret("mr", a.ConfigMap("c", "1"), "metadata: {name: typeless}")
	a.AwaitApplied("mr", "False/ApplyFailed")
	a.Expect(a.conditions()).To(Equal(checksPending("False/ApplyFailed")))
	a.AwaitData("c", "1")
}

func changedData(a *setTest) {
	before := a.set(a.ConfigMap("c", "1"))
	a.Expect(a.conditions()).To(Equal(healthyAndApplied()))
	after := a.replace(a.ConfigMap("c", "2"))
	a.Expect(after.Status.SecretsDataChecksum).NotTo(Equal(before.Status.SecretsDataChecksum))
	a.Expect(describeConditions(after)).To(Equal(healthyAndApplied()))
	a.Expect(a.live("c").Data).To(Equal(map[string]string{"key": "2"}))
	a.expectNoWrites()
}

func newKey(a *setTest) {
	mr := a.set(a.ConfigMap("c", "1"))
	a.SecretData("mr", map[string][]byte{
		"objects.yaml": []byte(a.ConfigMap("c", "1")),
		"x.yaml":       fmt.Appendf(nil, "apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: %s}\nstringData: {a: b}\n", a.Namespace),
	})
	after := a.awaitChecksumOtherThan(*mr.Status.SecretsDataChecksum)
	a.Expect(describeConditions(after)).To(Equal(healthyAndApplied()))
	a.Expect(a.read("v1", "Secret", a.Namespace, "x").Object).To(HaveKeyWithValue("data", map[string]any{"a": "Yg=="}))
	a.expectNoWrites()
}

func secondSecret(a *setTest) {
	before := a.set(a.ConfigMap("c", "1"))
	a.Secret("second", a.ConfigMap("d", "2"))
	a.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Spec.SecretRefs = append(mr.Spec.SecretRefs, corev1.LocalObjectReference{Name: "second"})
	})
	after := a.awaitChecksumOtherThan(*before.Status.SecretsDataChecksum)
	a.Expect(listed(after)).To(Equal(a.listedMaps("c", "d")))
	a.Expect(after.Status.ObservedGeneration).To(Equal(after.Generation))
	a.Expect(a.live("d").Data).To(Equal(map[string]string{"key": "2"}))
	a.expectNoWrites()
}

func pendingDeletionDelaysNewObjects(a *setTest) {
	a.set(a.ConfigMap("c", "1"))
	a.blockDeletion("c")
	a.Secret("mr", a.ConfigMap("d", "2"))
	mr := a.AwaitApplied("mr", "Progressing/DeletionPending")
	a.Expect(describeConditions(mr)).To(Equal(checksPending("Progressing/DeletionPending")))
	a.Expect(managedresourcetest.Message(mr, "ResourcesApplied")).To(Equal(
		`Could not clean all old resources: 1 error occurred: deletion of old resource "v1/ConfigMap/` + a.Namespace + `/c" is still pending`))
	a.Expect(a.LiveConfigMap("d")).To(BeNil())
	a.unblockDeletion("c")
	a.AwaitApplied("mr", "True/ApplySucceeded")
	a.Expect(a.LiveConfigMap("c")).To(BeNil())
	a.Expect(a.live("d").Data).To(Equal(map[string]string{"key": "2"}))
	a.expectNoWrites()
}

func unchangedSecret(a *setTest) {
	a.set(a.ConfigMap("c", "1"))
	before, live := a.Get("mr"), a.live("c")
	a.Requests.Reset()
	a.patch(a.Source, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: "mr"}}, `{"metadata":{"labels":{"a":"b"}}}`)
	a.soon(a.readsOfSecret).Should(Equal(1))
	a.Consistently(a.Requests.Writes).WithTimeout(300 * time.Millisecond).Should(BeEmpty())
	a.Expect(a.Get("mr")).To(BeComparableTo(before))
	a.Expect(a.live("c")).To(BeComparableTo(live))
}

func invalidBesideValid(a *setTest) {
	a.SecretData("mr", map[string][]byte{
		"a.yaml": []byte(a.ConfigMap("c", "1") + "---\n{not: [yaml\n---\njust text\n"),
		"b.yaml": []byte(a.ConfigMap("d", "2")),
	})
	a.Expect(a.Source.Create(a.Ctx, a.ManagedResource("mr", "mr"))).To(Succeed())
	mr := a.AwaitApplied("mr", "False/DecodingFailed")
	a.Expect(managedresourcetest.Message(mr, "ResourcesApplied")).To(MatchRegexp(
		"^Could not decode all new resources: "+
			`\[Could not decode resource at index 1 in 'a.yaml' in secret '%[1]s/mr': [^']+\. `+
			`Could not decode resource at index 2 in 'a.yaml' in secret '%[1]s/mr': [^']+\.\]$`, a.Namespace))
	a.Expect(a.live("c").Data).To(Equal(map[string]string{"key": "1"}))
	a.Expect(a.live("d").Data).To(Equal(map[string]string{"key": "2"}))
	a.expectNoWrites()
}

func becomesInvalid(a *setTest) {
	a.set(a.ConfigMap("c", "1"), a.ConfigMap("d", "1"))
	a.Secret("mr", "broken: [", a.ConfigMap("d", "2"))
	mr := a.AwaitApplied("mr", "False/DecodingFailed")
	a.AwaitData("d", "2")
	a.Expect(listed(mr)).To(Equal(a.listedMaps("c", "d")))
	a.awaitEarlierEvents()
	a.Expect(a.live("c").Data).To(Equal(map[string]string{"key": "1"}))
	a.expectNoWrites()
	mr = a.replace(a.ConfigMap("d", "2"))
	a.Expect(listed(mr)).To(Equal(a.listedMaps("d")))
	a.Expect(a.LiveConfigMap("c")).To(BeNil())
}

func emptyDocuments(a *setTest) {
	mr := a.set("# a comment", "", a.ConfigMap("c", "1"), "null", "   ", "# another\n# comment\n", a.ConfigMap("d", "1"), "")
	a.Expect(listed(mr)).To(Equal(a.listedMaps("c", "d")))
	a.expectNoWrites()
}

func lists(a *setTest) {
	a.Set("mr", fmt.Sprintf("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: %s}}]",
		a.Namespace))
	mr := a.AwaitApplied("mr", "False/ApplyFailed")
	a.Expect(managedresourcetest.Message(mr, "ResourcesApplied")).To(And(ContainSubstring("no matches for kind"), HaveSuffix(
		" (index 0 in 'objects.yaml' in secret '"+a.Namespace+"/mr')")))
	a.Expect(a.LiveConfigMap("c")).To(BeNil())
}

func withoutNamespace(a *setTest) {
	mr := a.set("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + a.Namespace + "}")
	a.Expect(a.read("v1", "ConfigMap", "default", a.Namespace).GetName()).To(Equal(a.Namespace))
	a.Expect(listed(mr)).To(Equal([]string{"v1/ConfigMap/default/" + a.Namespace}))
	a.expectNoWrites()
}

func clusterScopedWithNamespace(a *setTest) {
	mr := a.set(fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: %[1]s, namespace: %[1]s}\n"+
		"rules: []", a.Namespace))
	a.Expect(a.read("rbac.authorization.k8s.io/v1", "ClusterRole", "", a.Namespace).GetName()).To(Equal(a.Namespace))
	a.Expect(listed(mr)).To(Equal([]string{"rbac.authorization.k8s.io/v1/ClusterRole//" + a.Namespace}))
	a.expectNoWrites()
	a.delete()
	a.AwaitGone("mr")
	a.Expect(a.read("rbac.authorization.k8s.io/v1", "ClusterRole", "", a.Namespace).Object).To(BeEmpty())
}

func definitionAndResource(a *setTest) {
	a.Grant(a.gadgets(), "gadgets")
	mr := a.set(a.gadget(a.Namespace, "g"), a.definition())
	a.Expect(a.read(a.gadgets()+"/v1", "Gadget", a.Namespace, "g").GetLabels()).
		To(Equal(map[string]string{"resources.gardener.cloud/managed-by": "gardener"}))
	a.Expect(listed(mr)).To(ConsistOf(
		"apiextensions.k8s.io/v1/CustomResourceDefinition//gadgets."+a.gadgets(), a.gadgets()+"/v1/Gadget/"+a.Namespace+"/g"))
	a.expectNoWrites()
	a.delete()
	a.AwaitGone("mr")
	a.Expect(a.read("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "gadgets."+a.gadgets()).Object).To(BeEmpty())
}

func creationOrder(a *setTest) {
	a.Grant(a.gadgets(), "gadgets")
	a.set(
		a.gadget(a.Namespace, "g"), a.deployment("web", "web"), a.definition(), a.ConfigMap("c", "1"),
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: "+a.Namespace+"-other}")
	a.Expect(slices.Compact(a.creations())).To(Equal([]string{
		"namespaces", "configmaps", "customresourcedefinitions", "deployments",
		"gadgets",
	}))
	a.expectNoWrites()
}

func statusOrder(a *setTest) {
	documents := []string{
		a.deployment("b", "b"), a.ConfigMap("d", "1"), a.deployment("a", "a"),
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: " + a.Namespace + "-other}",
		fmt.Sprintf("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a, namespace: %s}", a.Namespace), a.ConfigMap("c", "1"),
	}
	mr := a.set(documents...)
	ns := a.Namespace
	a.Expect(listed(mr)).To(Equal([]string{
		"v1/ConfigMap/" + ns + "/c", "v1/ConfigMap/" + ns + "/d", "v1/Namespace//" + ns + "-other", "v1/ServiceAccount/" + ns + "/a",
		"apps/v1/Deployment/" + ns + "/a", "apps/v1/Deployment/" + ns + "/b",
	}))
	a.expectNoWrites()
	documents[1], documents[5] = documents[5], documents[1]
	again := a.replace(documents...)
	a.Expect(again.Status.Resources).To(BeComparableTo(mr.Status.Resources))
}
