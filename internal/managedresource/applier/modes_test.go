package applier_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

func TestModesOfSets(t *testing.T) {
	t.Parallel()
	runAll(t, map[string]testCase{
		"drift is only reported":             {run: reportedDrift, everywhere: true},
		"only approved content is applied":   {run: approvedContent},
		"ignored fields stay as they are":    {run: ignoredFields},
		"a malformed list of ignored fields": {run: malformedIgnoredFields},
	})
}

// message returns the message of ResourcesApplied of the set "mr".
func (a *setTest) message() string { return Message(a.Get("mr"), "ResourcesApplied") }

func reportedDrift(a *setTest) {
	a.set(a.ConfigMap("one", "1"), a.ConfigMap("two", "1"))
	a.annotate("espalier.dev/drift", "report")
	a.awaitEarlierEvents()
	a.Edit("one", `{"data":{"key":"foreign"}}`)
	changed := fmt.Sprintf("v1/ConfigMap/%s/one (changed by \"kubectl-edit\")", a.Namespace)
	a.soon(a.message).Should(HaveSuffix("which is not reverted: " + changed))
	a.Expect(Condition(a.Get("mr"), "ResourcesApplied")).To(Equal("True/ApplySucceeded"))
	a.soon(func() []string { return a.Events("mr") }).
		Should(ContainElement(fmt.Sprintf("DriftReported: v1 ConfigMap %s/one differs from its manifest: changed by %q", a.Namespace,
			"kubectl-edit")))
	a.Remove("v1/ConfigMap", "two")
	a.soon(a.message).Should(HaveSuffix(fmt.Sprintf("%s; v1/ConfigMap/%s/two (deleted)", changed, a.Namespace)))
	a.Expect(a.live("one").Data).To(HaveKeyWithValue("key", "foreign"))
	a.Expect(a.Counter("espalier_managedresource_drift_reports_total")).To(BeEquivalentTo(2))
	a.Expect(a.Counter("espalier_managedresource_drift_repairs_total")).To(BeEquivalentTo(0))

	a.Restart(nil)
	a.Reconciled("mr")
	a.Expect(a.live("one").Data).To(HaveKeyWithValue("key", "foreign"))
	a.Expect(a.LiveConfigMap("two")).To(BeNil())
	a.Expect(a.message()).To(HaveSuffix("two (deleted)"))
	a.Expect(a.Counter("espalier_managedresource_drift_reports_total")).To(BeEquivalentTo(0), "they were reported before the restart")

	a.Edit("one", `{"data":{"key":"1"}}`)
	a.soon(a.message).ShouldNot(ContainSubstring(changed))
	a.Edit("one", `{"data":{"key":"again"}}`)
	a.soon(a.message).Should(ContainSubstring(changed))
	a.Edit("one", `{"data":{"key":"1"}}`)
	a.soon(a.message).ShouldNot(ContainSubstring(changed))

	awaitLaterSecond(a.Env)
	a.patchAs("espalier", "one", `{"data":{"more":"x"}}`)
	ownName := fmt.Sprintf("v1/ConfigMap/%s/one (changed by \"espalier\")", a.Namespace)
	a.soon(a.message).Should(ContainSubstring(ownName))
	a.Edit("one", `{"metadata":{"labels":{"a":"b"}}}`)
	a.soon(func() any { return a.live("one").Labels }).Should(HaveKey("a"))
	a.awaitEarlierEvents()
	a.Expect(a.message()).To(ContainSubstring("v1/ConfigMap/%s/one (changed", a.Namespace))
	a.Restart(nil)
	a.Reconciled("mr")
	a.Expect(a.message()).To(ContainSubstring("v1/ConfigMap/%s/one (changed", a.Namespace))
	a.annotate("espalier.dev/drift", "repair")
	a.AwaitData("one", "1")
	a.AwaitData("two", "1")
	a.soon(a.message).Should(Equal("All resources are applied."))
}

// patchAs patches a ConfigMap of the target under the name of a field manager.
func (a *setTest) patchAs(manager, name, patch string) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: name}}
	a.Expect(a.Target.Patch(a.Ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(manager))).To(Succeed())
}

func approvedContent(a *setTest) {
	a.set(a.ConfigMap("one", "1"))
	approved := *a.Get("mr").Status.SecretsDataChecksum
	a.annotate("espalier.dev/approved", approved)
	a.awaitEarlierEvents()
	a.Edit("one", `{"data":{"key":"foreign"}}`)
	a.AwaitData("one", "1") // the approved content is kept
	a.Secret("mr", a.ConfigMap("one", "2"), a.ConfigMap("two", "1"))
	checksum := ""
	found := awaitPlan(a.Env, "mr", func(g Gomega, p *published) {
		g.Expect(p.actions()).To(Equal([]string{"change ConfigMap one", "create ConfigMap two"}))
		checksum = p.SecretsDataChecksum
	})
	a.Expect(found.Data["plan.txt"]).To(ContainSubstring("approved with the annotation espalier.dev/approved: %q", checksum))
	a.Edit("one", `{"data":{"key":"foreign"}}`)
	a.AwaitData("one", "1") // the approved content is kept although the Secret has another one
	a.Restart(nil)
	a.Reconciled("mr")
	a.Expect(a.live("one").Data).To(HaveKeyWithValue("key", "1"))
	a.Remove("v1/ConfigMap", "one")
	a.soon(func() string { return Condition(a.Get("mr"), "ResourcesHealthy") }).Should(HavePrefix("False/"))
	a.annotate("espalier.dev/approved", checksum)
	a.AwaitData("one", "2")
	a.AwaitData("two", "1")
	a.AwaitApplied("mr", "True/ApplySucceeded")
	a.soon(func() any { return readPlan(a.Env, "mr") }).Should(BeNil())
	a.Secret("mr", a.ConfigMap("one", "3"))
	awaitPlan(a.Env, "mr", func(g Gomega, p *published) {
		g.Expect(p.actions()).To(Equal([]string{"change ConfigMap one", "delete ConfigMap two"}))
	})
	a.patch(a.Source, a.ManagedResource("mr"), `{"metadata":{"annotations":{"espalier.dev/approved":null}}}`)
	a.AwaitData("one", "3")
	a.awaitAbsent("two")
}

func ignoredFields(a *setTest) {
	a.set(a.ConfigMap("one", "1"), a.ConfigMap("two", "1"))
	a.annotate("espalier.dev/ignore-fields", `[{pointers: [/data/key, /data/more], target: {kind: ConfigMap, name: o*}}]`)
	a.awaitEarlierEvents()
	a.Edit("one", `{"data":{"key":"foreign","more":"x"}}`)
	a.Edit("two", `{"data":{"key":"foreign"}}`)
	a.AwaitData("two", "1")
	a.expectNoWrites()
	a.Expect(a.live("one").Data).To(Equal(map[string]string{"key": "foreign", "more": "x"}))
	a.replace(a.ConfigMap("one", "2", "labels: {a: b}"), a.ConfigMap("two", "1"))
	a.Expect(a.live("one").Labels).To(HaveKeyWithValue("a", "b"))
	a.Restart(nil)
	a.expectNoWrites()
	a.Expect(a.live("one").Data).To(Equal(map[string]string{"key": "foreign", "more": "x"}))

	a.annotate("espalier.dev/plan", "true")
	found := awaitPlan(a.Env, "mr", func(g Gomega, p *published) {
		g.Expect(p.actions()).To(Equal([]string{"unchanged ConfigMap one", "unchanged ConfigMap two"}))
	})
	a.Expect(found.Data["plan.txt"]).To(ContainSubstring("! fields that annotation espalier.dev/ignore-fields names stay as they are: ["))
	a.patch(a.Source, a.ManagedResource("mr"), `{"metadata":{"annotations":{"espalier.dev/plan":null,"espalier.dev/ignore-fields":null}}}`)
	a.AwaitData("one", "2")
	a.Expect(a.live("one").Data).To(Equal(map[string]string{"key": "2"}))
}

func malformedIgnoredFields(a *setTest) {
	a.set(a.ConfigMap("one", "1"))
	a.annotate("espalier.dev/ignore-fields", `[{pointers: [data]}]`)
	a.AwaitApplied("mr", "False/ApplyFailed")
	a.Expect(a.message()).To(ContainSubstring(`pointer "data": a JSON pointer begins with a slash`))
	a.Secret("mr", a.ConfigMap("one", "2"))
	a.awaitEarlierEvents()
	a.Expect(a.live("one").Data).To(HaveKeyWithValue("key", "1"))
	a.annotate("espalier.dev/ignore-fields", `[]`)
	a.AwaitData("one", "2")
	a.AwaitApplied("mr", "True/ApplySucceeded")
}
