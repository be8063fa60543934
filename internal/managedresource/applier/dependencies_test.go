package applier_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

const dependsOn = "espalier.dev/depends-on"

func TestDependenciesOfSets(t *testing.T) {
	t.Parallel()
	runAll(t, map[string]testCase{
		"a set is applied after the sets on which it depends":   {run: orderedSets},
		"an unhealthy dependency undoes nothing":                {run: unhealthyDependency},
		"sets that depend on each other are not applied":        {run: cyclicDependencies},
		"a malformed list of dependencies":                      {run: malformedDependencies},
		"sets of other namespaces stay unknown":                 {run: foreignDependency},
		"sets are deleted before the sets on which they depend": {run: orderedDeletion},
	})
}

// dependentSet creates a set with a ConfigMap, both with a name, that depends on other sets.
func (a *setTest) dependentSet(name, dependencies string) {
	a.T.Helper()
	a.Secret(name, a.ConfigMap(name, "1"))
	mr := a.ManagedResource(name, name)
	mr.Annotations = map[string]string{dependsOn: dependencies}
	a.Expect(a.Source.Create(a.Ctx, mr)).To(Succeed())
}

// awaitBlocked waits until a set is not applied because of its dependencies.
func (a *setTest) awaitBlocked(name, message string) {
	a.T.Helper()
	a.AwaitApplied(name, "Progressing/DependenciesPending")
	a.soon(func() string { return Message(a.Get(name), "ResourcesApplied") }).Should(ContainSubstring(message))
}

// The sync period is an hour, so that only watches wake a set.
func orderedSets(a *setTest) {
	a.dependentSet("third", a.Namespace+"/second, first")
	a.dependentSet("second", "first")
	a.awaitBlocked("second", `waits for ManagedResource "`+a.Namespace+`/first", which does not exist`)
	a.awaitBlocked("third", `waits for ManagedResource "`+a.Namespace+`/second", which is not applied and healthy`)
	a.Expect(a.LiveConfigMap("second")).To(BeNil())
	a.Set("first", a.ConfigMap("first", "1"))
	for _, name := range []string{"first", "second", "third"} {
		a.AwaitApplied(name, "True/ApplySucceeded")
	}
	a.Expect(a.Get("second").CreationTimestamp.After(a.live("third").CreationTimestamp.Time)).To(BeFalse())
}

func unhealthyDependency(a *setTest) {
	a.Set("first", a.ConfigMap("first", "1"))
	a.AwaitApplied("first", "True/ApplySucceeded")
	a.dependentSet("mr", "first")
	a.AwaitApplied("mr", "True/ApplySucceeded")
	a.Secret("first", a.ConfigMap("first", "1"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n")
	a.AwaitApplied("first", "False/ApplyFailed")
	a.Edit("mr", `{"data":{"key":"foreign"}}`)
	a.AwaitData("mr", "1") // the applied content is kept
	a.Secret("mr", a.ConfigMap("mr", "2"))
	a.awaitBlocked("mr", "not applied and healthy")
	a.Edit("mr", `{"data":{"key":"foreign"}}`)
	a.AwaitData("mr", "1")
	a.Remove("v1/ConfigMap", "mr")
	a.AwaitData("mr", "1")
	a.soon(func() []string { return a.Events("mr") }).Should(ContainElement(HavePrefix("DriftRepaired: ")))
	a.Restart(nil) // the process does not have the former content any more
	a.Reconciled("mr")
	a.Expect(a.live("mr").Data).To(HaveKeyWithValue("key", "1"))
	a.Remove("v1/ConfigMap", "mr")
	a.soon(func() string { return Condition(a.Get("mr"), "ResourcesHealthy") }).Should(Equal("False/ConfigMapMissing"))
	a.awaitBlocked("mr", "not applied and healthy")
	a.Secret("first", a.ConfigMap("first", "1"))
	a.AwaitData("mr", "2")
	a.AwaitApplied("mr", "True/ApplySucceeded")
}

func cyclicDependencies(a *setTest) {
	a.dependentSet("one", "two")
	a.dependentSet("two", "three")
	a.dependentSet("three", "one")
	a.awaitBlocked("three",
		a.Fill("depend on each other: $NS/three -> $NS/one -> $NS/two -> $NS/three"))
	a.Change("two", func(mr *resourcesv1alpha1.ManagedResource) { delete(mr.Annotations, dependsOn) })
	for _, name := range []string{"two", "one", "three"} {
		a.AwaitApplied(name, "True/ApplySucceeded")
	}
}

func malformedDependencies(a *setTest) {
	a.dependentSet("mr", "a/b/c")
	a.AwaitApplied("mr", "False/ApplyFailed")
	a.Expect(a.message()).To(ContainSubstring(`annotation espalier.dev/depends-on: "a/b/c" is no ManagedResource`))
	a.annotate(dependsOn, "")
	a.AwaitApplied("mr", "True/ApplySucceeded")
}

func foreignDependency(a *setTest) {
	a.dependentSet("mr", "kube-system/absent")
	a.awaitBlocked("mr", `waits for ManagedResource "kube-system/absent", which is not applied and healthy`)
	a.annotate(dependsOn, strings.Repeat("kube-system/absent,", 33))
	a.AwaitApplied("mr", "False/ApplyFailed")
	a.Expect(a.message()).To(ContainSubstring("annotation espalier.dev/depends-on: more than 32 ManagedResources"))
}

func orderedDeletion(a *setTest) {
	a.Set("first", a.ConfigMap("first", "1"))
	a.dependentSet("mr", "first")
	a.AwaitApplied("mr", "True/ApplySucceeded")
	a.blockDeletion("mr")
	a.delete()
	a.awaitDeleting("mr")
	a.Delete("first")
	a.soon(func() string { return Message(a.Get("first"), "ResourcesApplied") }).Should(ContainSubstring(
		`waits for the deletion of ManagedResource "` + a.Namespace + `/mr", which depends on this one`))
	a.Expect(a.live("first").DeletionTimestamp).To(BeNil())
	a.unblockDeletion("mr")
	a.AwaitGone("mr")
	a.AwaitGone("first")
}
