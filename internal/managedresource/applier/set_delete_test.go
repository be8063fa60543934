package applier_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

func TestSetsAreDeletedAndHandedOver(t *testing.T) {
	t.Parallel()
	runAll(t, map[string]testCase{
		"the objects of a deleted set are deleted":                        {run: deletedSet, everywhere: true},
		"a set with a foreign finalizer stays after its objects are gone": {run: setWithForeignFinalizer},
		"a set stays until its objects are gone":                          {run: pendingDeletionKeepsSet},
		"keepObjects":                                                     {run: keepObjects},
		"a set of another class is not applied":                           {run: foreignClass},
		"the objects of a set that moves to another class are deleted":    {run: moveToOtherClass},
		"a set that moves between two instances":                          {run: moveBetweenInstances, everywhere: true},
	})
}

func TestAnnotationsOfObjectsAreRespected(t *testing.T) {
	t.Parallel()
	runAll(t, map[string]testCase{
		"mode Ignore from the start":                                      {run: modeIgnore},
		"a managed object is released":                                    {run: release, everywhere: true},
		"a released object of another origin is not changed":              {run: releaseOfAnotherOrigin},
		"a release that fails is reported and repeated":                   {run: failedRelease},
		"delete-on-invalid-update and a label that changes":               {run: validUpdateOfImmutable},
		"delete-on-invalid-update and data that change":                   {run: invalidUpdateOfImmutable},
		"an immutable ConfigMap that was replaced by hand":                {run: immutableReplacedByHand},
		"keep-object \"true\"":                                            {run: keepObject("true"), everywhere: true},
		"keep-object \"t\"":                                               {run: keepObject("t")},
		"finalize-deletion-after":                                         {run: finalizeDeletion, everywhere: true},
		"the garbage collector's ConfigMap stays, a Node is deleted":      {run: collectable, apart: true, configure: collecting},
		"the garbage collector's ConfigMap stays when the set is deleted": {run: collectableOfDeletedSet, apart: true, configure: collecting},
	})
}

func deletedSet(a *setTest) {
	a.set(
		a.ConfigMap("c", "1"), fmt.Sprintf("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: sa, namespace: %s}", a.Namespace),
		fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r, namespace: %s}\nrules: []", a.Namespace))
	a.Requests.Reset()
	a.delete()
	a.AwaitGone("mr")
	a.Expect(a.LiveConfigMap("c")).To(BeNil())
	a.Expect(a.read("rbac.authorization.k8s.io/v1", "Role", a.Namespace, "r").Object).To(BeEmpty())
	a.Expect(a.read("v1", "ServiceAccount", a.Namespace, "sa").Object).To(BeEmpty())
	set := "/apis/resources.gardener.cloud/v1alpha1/namespaces/" + a.Namespace + "/managedresources/mr"
	isStatus := func(request string) bool { return request == "PATCH "+set+"/status" }
	writes := slices.Compact(slices.DeleteFunc(a.Requests.Writes(), isStatus)) // a late event may cause a second removal of the finalizer
	a.Expect(writes).To(Equal([]string{
		"DELETE /apis/rbac.authorization.k8s.io/v1/namespaces/" + a.Namespace + "/roles/r",
		"DELETE /api/v1/namespaces/" + a.Namespace + "/configmaps/c",
		"DELETE /api/v1/namespaces/" + a.Namespace + "/serviceaccounts/sa",
		"PATCH " + set,
	}))
}

// deletionPending returns the conditions of a set that is being deleted.
func deletionPending() map[string]string {
	return map[string]string{
		"ResourcesApplied": "Progressing/DeletionPending", "ResourcesHealthy": "False/DeletionPending",
		"ResourcesProgressing": "True/DeletionPending",
	}
}

func setWithForeignFinalizer(a *setTest) {
	a.set(a.ConfigMap("c", "1"))
	a.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Finalizers = append(mr.Finalizers, "example.com/foreign")
	})
	a.delete()
	a.soon(func() []string { return a.Get("mr").Finalizers }).Should(Equal([]string{"example.com/foreign"}))
	a.Expect(a.LiveConfigMap("c")).To(BeNil())
	mr := a.Get("mr")
	a.Expect(describeConditions(mr)).To(Equal(deletionPending()))
	for _, kind := range []string{"ResourcesApplied", "ResourcesHealthy", "ResourcesProgressing"} {
		a.Expect(managedresourcetest.Message(mr, kind)).To(Equal("The resources are currently being deleted."))
	}
	a.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Finalizers = nil })
	a.AwaitGone("mr")
}

func pendingDeletionKeepsSet(a *setTest) {
	a.set(a.ConfigMap("c", "1"), a.ConfigMap("d", "1"))
	a.blockDeletion("c")
	a.delete()
	a.awaitAbsent("d")
	a.soon(func() string { return managedresourcetest.Message(a.Get("mr"), "ResourcesApplied") }).Should(Equal(
		`Could not clean all old resources: 1 error occurred: deletion of old resource "v1/ConfigMap/` + a.Namespace + `/c" is still pending`))
	a.Expect(a.conditions()).To(Equal(deletionPending()))
	a.Expect(a.Get("mr").Finalizers).To(Equal([]string{"resources.gardener.cloud/gardener-resource-manager"}))
	a.unblockDeletion("c")
	a.AwaitGone("mr")
	a.Expect(a.LiveConfigMap("c")).To(BeNil())
}

func keepObjects(a *setTest) {
	a.set(a.ConfigMap("c", "1"))
	a.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.KeepObjects = new(true) })
	before := a.live("c")
	a.delete()
	a.AwaitGone("mr")
	a.Expect(a.live("c")).To(BeComparableTo(before))
}

func foreignClass(a *setTest) {
	a.Secret("mr", a.ConfigMap("c", "1"))
	mr := a.ManagedResource("mr", "mr")
	mr.Spec.Class = ptr.To("test")
	a.Expect(a.Source.Create(a.Ctx, mr)).To(Succeed())
	a.awaitEarlierEvents()
	a.Expect(a.Get("mr")).To(BeComparableTo(mr))
	a.Expect(a.LiveConfigMap("c")).To(BeNil())
}

func moveToOtherClass(a *setTest) {
	a.set(a.ConfigMap("c", "1"))
	a.class("test")
	a.soon(func() []string { return a.Get("mr").Finalizers }).Should(BeEmpty())
	a.Expect(a.LiveConfigMap("c")).To(BeNil())
	a.awaitEarlierEvents()
	a.Expect(a.LiveConfigMap("c")).To(BeNil())
	a.Expect(listed(a.Get("mr"))).To(Equal(a.listedMaps("c")))
}

func classTest(cfg *config.ResourceManagerConfiguration) {
	cfg.Controllers.ResourceClass = ptr.To("test")
}

func moveBetweenInstances(a *setTest) {
	other := a.StartAnother(classTest)
	a.set(a.ConfigMap("c", "1"))
	first := a.live("c")
	a.class("test")
	a.soon(func() []string { return a.Get("mr").Finalizers }).
		Should(Equal([]string{"resources.gardener.cloud/gardener-resource-manager-test"}))
	a.AwaitApplied("mr", "True/ApplySucceeded")
	a.Expect(a.live("c").UID).NotTo(Equal(first.UID))
	a.Expect(other.Requests.Writes()).To(ContainElement("POST /api/v1/namespaces/" + a.Namespace + "/configmaps"))
	other.Requests.Reset()
	a.Edit("c", `{"data":{"key":"2"}}`)
	a.AwaitData("c", "1")
	a.Expect(other.Requests.Writes()).To(Equal([]string{"PUT /api/v1/namespaces/" + a.Namespace + "/configmaps/c"}))
	a.delete()
	a.AwaitGone("mr")
	a.Expect(a.LiveConfigMap("c")).To(BeNil())
}

const ignoreMode = "annotations: {resources.gardener.cloud/mode: Ignore}"

func modeIgnore(a *setTest) {
	mr := a.set(a.ConfigMap("c", "1", ignoreMode), a.ConfigMap("d", "1"))
	a.Expect(listed(mr)).To(Equal(a.listedMaps("d")))
	a.Expect(a.LiveConfigMap("c")).To(BeNil())
	a.expectNoWrites()
}

func release(a *setTest) {
	a.set(a.ConfigMap("c", "1", "annotations: {note: x}"))
	before := a.live("c")
	mr := a.replace(a.ConfigMap("c", "1", ignoreMode))
	a.Expect(mr.Status.Resources).To(BeEmpty())
	live := a.live("c")
	a.Expect(live.UID).To(Equal(before.UID))
	a.Expect(live.Annotations).To(Equal(map[string]string{"note": "x"}))
	a.Expect(live.Labels).To(Equal(map[string]string{"resources.gardener.cloud/managed-by": "gardener"}))
	a.expectNoWrites()
	a.Edit("c", `{"data":{"key":"2"}}`)
	a.awaitEarlierEvents()
	a.Expect(a.live("c").Data).To(Equal(map[string]string{"key": "2"}))
	a.delete()
	a.AwaitGone("mr")
	a.Expect(a.live("c").UID).To(Equal(before.UID))
}

func releaseOfAnotherOrigin(a *setTest) {
	a.set(a.ConfigMap("c", "1"))
	a.Restart(func() {
		a.Edit("c", `{"metadata":{"annotations":{"resources.gardener.cloud/origin":"other/set"}}}`)
		a.Secret("mr", a.ConfigMap("c", "1", ignoreMode))
	})
	before := a.live("c")
	a.soon(func() []string { return listed(a.Get("mr")) }).Should(BeEmpty())
	a.AwaitApplied("mr", "True/ApplySucceeded")
	a.Expect(a.live("c")).To(BeComparableTo(before))
	a.delete()
	a.AwaitGone("mr")
	a.Expect(a.live("c")).To(BeComparableTo(before))
}

func failedRelease(a *setTest) {
	a.set(a.ConfigMap("c", "1"))
	a.Requests.SetHook(func(r *http.Request) error {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/configmaps/c") {
			return errors.New("synthetic")
		}
		return nil
	})
	a.Secret("mr", a.ConfigMap("c", "1", ignoreMode))
	mr := a.AwaitApplied("mr", "False/ReleaseOfOrphanedResourcesFailed")
	a.Expect(managedresourcetest.Message(mr, "ResourcesApplied")).To(And(
		ContainSubstring(fmt.Sprintf(`release of resource "v1/ConfigMap/%s/c": `, a.Namespace)), ContainSubstring("synthetic")))
	a.Expect(listed(mr)).To(Equal(a.listedMaps("c")))
	a.Requests.SetHook(nil)
	a.AwaitApplied("mr", "True/ApplySucceeded")
	a.Expect(a.live("c").Annotations).NotTo(HaveKey("resources.gardener.cloud/origin"))
}

const deleteOnInvalid = `annotations: {resources.gardener.cloud/delete-on-invalid-update: "true"}`

func validUpdateOfImmutable(a *setTest) {
	a.set("immutable: true\n" + a.ConfigMap("c", "1", deleteOnInvalid))
	before := a.live("c")
	a.replace("immutable: true\n" + a.ConfigMap("c", "1", deleteOnInvalid, "labels: {a: b}"))
	live := a.live("c")
	a.Expect(live.UID).To(Equal(before.UID))
	a.Expect(live.Labels).To(Equal(map[string]string{"a": "b", "resources.gardener.cloud/managed-by": "gardener"}))
	a.expectNoWrites()
}

func invalidUpdateOfImmutable(a *setTest) {
	a.set("immutable: true\n" + a.ConfigMap("c", "1", deleteOnInvalid))
	before := a.live("c")
	a.replace("immutable: true\n" + a.ConfigMap("c", "2", deleteOnInvalid))
	live := a.live("c")
	a.Expect(live.UID).NotTo(Equal(before.UID))
	a.Expect(live.Data).To(Equal(map[string]string{"key": "2"}))
	a.expectNoWrites()
}

func immutableReplacedByHand(a *setTest) {
	a.set("immutable: true\n" + a.ConfigMap("c", "1"))
	a.Restart(func() {
		live := a.live("c")
		a.Expect(a.Target.Delete(a.Ctx, live)).To(Succeed())
		a.Expect(a.Target.Create(a.Ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: "c", Labels: live.Labels, Annotations: live.Annotations},
			Data:       map[string]string{"key": "2"}, Immutable: new(true),
		})).To(Succeed())
		a.operation("reconcile")
	})
	a.AwaitData("c", "1")
	a.soon(func() map[string]string { return a.Get("mr").Annotations }).Should(BeEmpty())
	a.AwaitApplied("mr", "True/ApplySucceeded")
	a.expectNoWrites()
}

func keepObject(value string) func(a *setTest) {
	return func(a *setTest) {
		annotation := fmt.Sprintf("annotations: {resources.gardener.cloud/keep-object: %q}", value)
		a.set(a.ConfigMap("c", "1", annotation), a.ConfigMap("d", "1", annotation), a.ConfigMap("e", "1"))
		c, d := a.live("c"), a.live("d")
		mr := a.replace(a.ConfigMap("d", "1", annotation), a.ConfigMap("e", "1"))
		a.Expect(listed(mr)).To(Equal(a.listedMaps("d", "e")))
		a.Expect(a.live("c")).To(BeComparableTo(c))
		a.expectNoWrites()
		a.delete()
		a.AwaitGone("mr")
		a.Expect(a.live("c")).To(BeComparableTo(c))
		a.Expect(a.live("d")).To(BeComparableTo(d))
		a.Expect(a.LiveConfigMap("e")).To(BeNil())
	}
}

func finalizeDeletion(a *setTest) {
	const after = 4 * time.Second
	a.set(a.ConfigMap("c", "1", "annotations: {resources.gardener.cloud/finalize-deletion-after: "+after.String()+"}"), a.ConfigMap("d", "1"))
	a.blockDeletion("c")
	a.blockDeletion("d")
	a.Secret("mr")
	due := a.awaitDeleting("c").DeletionTimestamp.Add(after)
	a.AwaitApplied("mr", "Progressing/DeletionPending")
	a.awaitAbsent("c")
	a.Expect(clock.RealClock{}.Now()).To(BeTemporally(">=", due))
	a.Expect(a.live("d").Finalizers).To(Equal([]string{"example.com/stuck"}))
	a.unblockDeletion("d")
	a.AwaitApplied("mr", "True/ApplySucceeded")
}

func collecting(cfg *config.ResourceManagerConfiguration) {
	cfg.Controllers.GarbageCollector.Enabled = true
}

// collectables are a ConfigMap and a Node, both with the label of the garbage collector.
func (a *setTest) collectables() []string {
	a.T.Helper()
	a.Grant("", "nodes")
	const label = `labels: {resources.gardener.cloud/garbage-collectable-reference: "true"}`
	return []string{a.ConfigMap("c", "1", label), fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata:\n  name: %s\n  %s\n", a.Namespace, label)}
}

func (a *setTest) expectOnlyTheNodeIsGone() {
	a.T.Helper()
	a.Expect(a.read("v1", "Node", "", a.Namespace).Object).To(BeEmpty())
	a.Expect(a.live("c").DeletionTimestamp).To(BeNil())
}

func collectable(a *setTest) {
	a.set(append(a.collectables(), a.ConfigMap("d", "1"))...)
	mr := a.replace(a.ConfigMap("d", "1"))
	a.Expect(listed(mr)).To(Equal(a.listedMaps("d")))
	a.expectOnlyTheNodeIsGone()
	a.expectNoWrites()
}

func collectableOfDeletedSet(a *setTest) {
	a.set(a.collectables()...)
	a.delete()
	a.AwaitGone("mr")
	a.expectOnlyTheNodeIsGone()
}
