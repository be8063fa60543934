package applier_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/crash/harness"
)

const pruningSuspended = "False/PruningSuspended"

func TestDeletionsAreSuspended(t *testing.T) {
	t.Parallel()
	runAll(t, map[string]testCase{
		"an emptied Secret deletes nothing until it is confirmed": {run: emptiedSecret, configure: limited, everywhere: true},
		"a repaired Secret lifts the suspension":                  {run: repairedSecret, configure: limited},
		"new objects do not lift a suspension":                    {run: dilutedSuspension, configure: limited},
		"an unreadable document does not lift a suspension":       {run: suspendedAndUnreadable, configure: limited},
		"a single StatefulSet":                                    {run: protectedKind, configure: limited},
		"a definition with objects, and one without":              {run: protectedDefinition, configure: limited},
		"objects are deleted although another one fails":          {run: confirmedBesideFailure, configure: limited},
		"the objects of a definition disappear":                   {run: emptiedDefinition, configure: limited},
		"a definition whose objects cannot be counted":            {run: uncountedDefinition, configure: limited},
		"a definition whose objects are not counted for a while":  {run: failedCount, configure: limited},
		"a deletion whose objects are not counted for a while":    {run: failedCountOfRemoval, configure: limited},
		"a deletion that is confirmed without a count":            {run: confirmedWithoutCount, configure: limited},
		"another class": {run: classOfSuspended, configure: limited},
		"the deletion of a set with many Namespaces":    {run: deletedSetWithNamespaces, configure: limited},
		"the deletion of a set with many other objects": {run: deletedSetWithMaps, configure: limited},
		"without the setting, everything is deleted":    {run: unlimited},
	})
}

func limited(cfg *config.ResourceManagerConfiguration) {
	cfg.Espalier.ManagedResource.DeletionLimit = &config.EspalierDeletionLimit{
		ProtectedKinds: &[]string{"Namespace", "CustomResourceDefinition.apiextensions.k8s.io", "PersistentVolumeClaim", "StatefulSet.apps"},
		Objects:        new(10), Percent: new(50), NamespacesAndDefinitions: new(3),
	}
}

// maps returns ConfigMaps with numbers from first up to last.
func (a *setTest) maps(first, last int) []string {
	var documents []string
	for number := first; number <= last; number++ {
		documents = append(documents, a.ConfigMap(fmt.Sprintf("map-%d", number), "1"))
	}
	return documents
}

// awaitSuspended waits until pruning of the set "mr" is suspended, and returns the value that confirms the deletion.
func (a *setTest) awaitSuspended() string {
	a.T.Helper()
	confirmation := ""
	a.soon(func(g Gomega) {
		mr := a.Get("mr")
		g.Expect(managedresourcetest.Condition(mr, "ResourcesApplied")).To(Equal(pruningSuspended))
		managedresourcetest.Judged(g, mr)
		_, rest, _ := strings.Cut(managedresourcetest.Message(mr, "ResourcesApplied"), "annotation espalier.dev/confirm-deletion: \"")
		confirmation, _, _ = strings.Cut(rest, "\"")
		g.Expect(confirmation).NotTo(BeEmpty())
	}).Should(Succeed())
	return confirmation
}

func emptiedSecret(a *setTest) {
	a.set(a.maps(1, 11)...)
	a.Secret("mr", a.ConfigMap("new", "1"))
	confirmation := a.awaitSuspended()
	a.Expect(a.live("new").Data).To(HaveKeyWithValue("key", "1"))
	mr := a.Get("mr")
	a.Expect(managedresourcetest.Condition(mr, "ResourcesHealthy")).To(Equal("True/ResourcesHealthy"))
	a.Expect(mr.Status.Resources).To(HaveLen(12))
	a.Expect(managedresourcetest.Message(mr, "ResourcesApplied")).To(And(
		ContainSubstring("no longer contain 11 objects, 0 of them of protected kinds"), ContainSubstring("v1 ConfigMap "+a.Namespace+"/map-1,")))
	a.soon(func() []string { return a.Events("mr") }).Should(ContainElement(HavePrefix("PruningSuspended: Pruning is suspended")))
	a.expectNoWrites()

	a.annotate("espalier.dev/plan", "true")
	plan := awaitPlan(a.Env, "mr", func(g Gomega, p *published) {
		g.Expect(p.SecretsDataChecksum).To(Equal(*mr.Status.SecretsDataChecksum))
		g.Expect(p.Counts).To(Equal(map[string]int{"keep": 11, "unchanged": 1}))
	})
	a.Expect(plan.Data["plan.txt"]).To(And(ContainSubstring("! Pruning is suspended"), ContainSubstring(confirmation)))
	a.patch(a.Source, a.ManagedResource("mr"), `{"metadata":{"annotations":{"espalier.dev/plan":null}}}`)
	a.soon(func() map[string]string { return a.Get("mr").Annotations }).ShouldNot(HaveKey("espalier.dev/planned"))

	a.Restart(nil)
	a.expectNoWrites()
	a.awaitSuspended()
	a.annotate("espalier.dev/confirm-deletion", "another")
	a.awaitEarlierEvents()
	a.awaitSuspended()
	a.annotate("espalier.dev/confirm-deletion", confirmation)
	a.AwaitApplied("mr", "True/ApplySucceeded")
	a.soon(func() map[string]string { return a.Get("mr").Annotations }).ShouldNot(HaveKey("espalier.dev/confirm-deletion"))
	a.Expect(listed(a.Get("mr"))).To(Equal(a.listedMaps("new")))
	for number := range 11 {
		a.awaitAbsent(fmt.Sprintf("map-%d", number+1))
	}
	a.expectNoWrites()
}

func repairedSecret(a *setTest) {
	a.set(a.maps(1, 12)...)
	uid := a.live("map-1").UID
	a.Secret("mr")
	a.awaitSuspended()
	a.Secret("mr", a.maps(1, 11)...) // less than the limit
	mr := a.AwaitApplied("mr", "True/ApplySucceeded")
	a.Expect(mr.Status.Resources).To(HaveLen(11))
	a.Expect(a.live("map-1").UID).To(Equal(uid))
	a.awaitAbsent("map-12")
	a.Expect(mr.Status.Conditions[0].Codes).To(BeEmpty())
}

func dilutedSuspension(a *setTest) {
	a.set(a.maps(1, 11)...)
	a.Secret("mr", a.maps(12, 40)...)
	a.awaitSuspended()
	a.Restart(nil)
	a.expectNoWrites()
	a.Secret("mr", a.maps(12, 41)...)
	a.soon(func() []string { return listed(a.Get("mr")) }).Should(HaveLen(41))
	a.awaitSuspended()
	a.live("map-1")
}

func suspendedAndUnreadable(a *setTest) {
	a.set(a.maps(1, 11)...)
	a.Secret("mr", a.maps(12, 40)...)
	a.awaitSuspended()
	a.Secret("mr", append(a.maps(12, 40), "just a text")...)
	a.AwaitApplied("mr", "False/DecodingFailed")
	a.Secret("mr", a.maps(12, 41)...)
	a.awaitSuspended()
	a.live("map-1")
	a.annotate("resources.gardener.cloud/ignore", "true")
	a.AwaitApplied("mr", "True/ManagedResourceIgnored")
	a.annotate("resources.gardener.cloud/ignore", "false")
	a.awaitSuspended()
}

// statefulSet is a StatefulSet without Pods.
func (a *setTest) statefulSet(name string) string {
	return strings.Replace(strings.Replace(a.deployment(name, "web"), "kind: Deployment", "kind: StatefulSet", 1),
		"replicas: 0", "replicas: 0\n  serviceName: web", 1)
}

func protectedKind(a *setTest) {
	a.set(a.ConfigMap("one", "1"), a.ConfigMap("two", "1"), a.statefulSet("db"))
	a.Secret("mr", a.ConfigMap("one", "2"))
	a.awaitSuspended()
	a.AwaitData("one", "2")
	a.live("two")
	a.Expect(a.read("apps/v1", "StatefulSet", a.Namespace, "db").Object).NotTo(BeEmpty())
	a.Expect(managedresourcetest.Message(a.Get("mr"), "ResourcesApplied")).
		To(ContainSubstring("2 objects, 1 of them of protected kinds: apps/v1 StatefulSet " + a.Namespace + "/db, v1 ConfigMap"))
}

func protectedDefinition(a *setTest) {
	a.Grant(a.gadgets(), "gadgets")
	a.set(a.definition(), a.ConfigMap("one", "1"))
	a.replace(a.ConfigMap("one", "1")) // no objects
	a.soon(func() map[string]any {
		return a.read("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "gadgets."+a.gadgets()).Object
	}).Should(BeEmpty())
	a.replace(a.definition(), a.gadget(a.Namespace, "g"))
	a.Secret("mr", a.gadget(a.Namespace, "g"))
	a.awaitSuspended()
	a.Expect(a.read(a.gadgets()+"/v1", "Gadget", a.Namespace, "g").Object).NotTo(BeEmpty())
}

func confirmedBesideFailure(a *setTest) {
	a.set(a.maps(1, 11)...)
	a.Secret("mr", a.ConfigMap("one", "1"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n")
	a.AwaitApplied("mr", "False/ApplyFailed")
	_, rest, _ := strings.Cut(a.message(), "annotation espalier.dev/confirm-deletion: \"")
	confirmation, _, found := strings.Cut(rest, "\"")
	a.Expect(found).To(BeTrue(), a.message())
	a.annotate("espalier.dev/confirm-deletion", confirmation)
	a.awaitAbsent("map-1")
	a.soon(func() map[string]string { return a.Get("mr").Annotations }).ShouldNot(HaveKey("espalier.dev/confirm-deletion"))
	a.AwaitApplied("mr", "False/ApplyFailed")
}

// Only the sync period, or the annotation, makes the controller count the objects again.
func emptiedDefinition(a *setTest) {
	a.Grant(a.gadgets(), "gadgets")
	a.set(a.definition(), a.gadget(a.Namespace, "g"), a.ConfigMap("one", "1"))
	a.Secret("mr", a.ConfigMap("one", "1"))
	a.awaitSuspended()
	gadget := a.read(a.gadgets()+"/v1", "Gadget", a.Namespace, "g")
	a.Expect(a.Target.Delete(a.Ctx, gadget)).To(Succeed())
	a.annotate("gardener.cloud/operation", "reconcile")
	a.AwaitApplied("mr", "True/ApplySucceeded")
}

// As after any failed count, the controller counts again in each sync period, or if the annotation requests it.
func uncountedDefinition(a *setTest) {
	a.set(a.definition(), a.ConfigMap("one", "1"))
	a.Secret("mr", a.ConfigMap("one", "1"))
	a.awaitSuspended()
	a.Expect(a.message()).To(And(ContainSubstring("cannot be counted"), ContainSubstring("cannot list resource")))
	a.Grant(a.gadgets(), "gadgets")
	a.annotate("gardener.cloud/operation", "reconcile")
	a.AwaitApplied("mr", "True/ApplySucceeded")
}

// refuseCounts makes the API server fail, as for a definition whose conversion webhook does not answer, when the objects of the definition
// are listed. It returns a function that ends this.
func (a *setTest) refuseCounts() (end func()) {
	refuse := harness.Refuse(http.StatusInternalServerError)
	a.Requests.Disturb(func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		if strings.HasSuffix(request.URL.Path, "/gadgets") && !request.URL.Query().Has("watch") {
			return refuse(request, next)
		}
		return next.RoundTrip(request)
	})
	return func() { a.Requests.Disturb(nil) }
}

// awaitUncounted waits until the set reports that a count has failed, and that it is tried again. It returns the value that confirms the
// deletion.
func (a *setTest) awaitUncounted(condition string) (confirmation string) {
	a.T.Helper()
	a.AwaitApplied("mr", condition)
	message := a.message()
	a.Expect(message).To(And(
		ContainSubstring("count the objects of CustomResourceDefinition \"gadgets."+a.gadgets()+"\": "), ContainSubstring("a test refuses it"),
		ContainSubstring("the controller tries it again, and deletes nothing meanwhile"),
	))
	_, rest, _ := strings.Cut(message, "annotation espalier.dev/confirm-deletion: \"")
	confirmation, _, found := strings.Cut(rest, "\"")
	a.Expect(found).To(BeTrue(), message)
	a.soon(func() []string { return a.Events("mr") }).Should(ContainElement(ContainSubstring("count the objects of")))
	a.Expect(a.read("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "gadgets."+a.gadgets()).GetDeletionTimestamp()).To(BeNil())
	a.live("two")
	return confirmation
}

// Only the definition can suspend the deletion, so that the count decides.
func failedCount(a *setTest) {
	a.Grant(a.gadgets(), "gadgets")
	a.set(a.definition(), a.ConfigMap("one", "1"), a.ConfigMap("two", "1"))
	a.Create(a.gadget(a.Namespace, "g"))
	end := a.refuseCounts()
	a.Secret("mr", a.ConfigMap("one", "1"))
	a.awaitUncounted("False/ApplyFailed")
	a.Expect(listed(a.Get("mr"))).To(HaveLen(3))
	end()
	a.awaitSuspended()
	a.live("two")
	a.Remove(a.gadgets()+"/v1/Gadget", "g")
	a.annotate("gardener.cloud/operation", "reconcile")
	a.AwaitApplied("mr", "True/ApplySucceeded")
}

func failedCountOfRemoval(a *setTest) {
	a.Grant(a.gadgets(), "gadgets")
	a.set(a.definition(), a.ConfigMap("two", "1"))
	end := a.refuseCounts()
	a.delete()
	a.awaitUncounted("Progressing/DeletionPending")
	end()
	a.AwaitGone("mr")
	a.awaitAbsent("two")
}

func confirmedWithoutCount(a *setTest) {
	a.Grant(a.gadgets(), "gadgets")
	a.set(a.definition(), a.ConfigMap("two", "1"))
	a.refuseCounts()
	a.delete()
	a.annotate("espalier.dev/confirm-deletion", a.awaitUncounted("Progressing/DeletionPending"))
	a.AwaitGone("mr")
	a.awaitAbsent("two")
}

func classOfSuspended(a *setTest) {
	a.set(a.maps(1, 11)...)
	a.class("other")
	a.awaitSuspended()
	a.live("map-11")
	a.Restart(nil)
	a.class("resources")
	a.AwaitApplied("mr", "True/ApplySucceeded")
	a.class("other")
	a.annotate("espalier.dev/confirm-deletion", a.awaitSuspended())
	a.awaitAbsent("map-11")
	a.soon(func() []string { return a.Get("mr").Finalizers }).Should(BeEmpty())
}

func deletedSetWithNamespaces(a *setTest) {
	var documents []string
	for number := range 4 {
		documents = append(documents, fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s-%d}", a.Namespace, number))
	}
	a.set(documents...)
	a.delete()
	a.AwaitApplied("mr", pruningSuspended)
	a.Expect(a.read("v1", "Namespace", "", a.Namespace+"-0").GetDeletionTimestamp()).To(BeNil())
	a.annotate("espalier.dev/confirm-deletion", a.awaitSuspended())
	a.soon(func() bool { return a.read("v1", "Namespace", "", a.Namespace+"-0").GetDeletionTimestamp() != nil }).Should(BeTrue())
}

func deletedSetWithMaps(a *setTest) {
	a.set(append(a.maps(1, 12), a.statefulSet("db"))...)
	a.delete()
	a.AwaitGone("mr")
}

func unlimited(a *setTest) {
	a.set(append(a.maps(1, 12), a.statefulSet("db"))...)
	a.replace()
	a.awaitAbsent("map-1")
}
