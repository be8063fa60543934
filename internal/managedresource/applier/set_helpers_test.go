package applier_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// testCase is the test of one behaviour of the controller.
type testCase struct {
	run func(a *setTest)
	// everywhere runs the test twice: with source and target in one cluster, and with two clusters. Otherwise it runs with one cluster.
	everywhere bool
	// apart runs the test with two clusters only.
	apart bool
	// configure changes the configuration; nil changes nothing.
	configure func(*config.ResourceManagerConfiguration)
}

// setTest is an Env with helpers for tests with one set, "mr".
type setTest struct{ *managedresourcetest.Env }

// runAll runs every test case with a sync period of an hour, so that only events cause reconciliations.
func runAll(t *testing.T, cases map[string]testCase) {
	t.Helper()
	for name, s := range cases {
		if !s.everywhere {
			t.Run(name, func(t *testing.T) { s.perform(t, s.apart) })
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Run("one cluster", func(t *testing.T) { s.perform(t, false) })
			t.Run("two clusters", func(t *testing.T) { s.perform(t, true) })
		})
	}
}

func (s testCase) perform(t *testing.T, two bool) {
	t.Helper()
	t.Parallel()
	s.run(&setTest{managedresourcetest.New(t, managedresourcetest.Options{
		TwoClusters: two,
		Configure: func(cfg *config.ResourceManagerConfiguration) {
			cfg.Controllers.ManagedResource.SyncPeriod = &metav1.Duration{Duration: time.Hour}
			if s.configure != nil {
				s.configure(cfg)
			}
		},
	})})
}

// step runs a part of a test as a subtest.
func (a *setTest) step(name string, run func(a *setTest)) {
	a.T.Helper()
	a.T.Run(name, func(t *testing.T) {
		inner := *a.Env
		inner.T, inner.WithT = t, NewWithT(t)
		run(&setTest{&inner})
	})
}

// soon waits until an assertion succeeds.
func (a *setTest) soon(actual any) AsyncAssertion {
	a.T.Helper()
	return a.Eventually(actual).WithTimeout(managedresourcetest.Patience)
}

// set creates the set "mr" and waits until it is applied.
func (a *setTest) set(documents ...string) *resourcesv1alpha1.ManagedResource {
	a.T.Helper()
	a.Set("mr", documents...)
	return a.AwaitApplied("mr", "True/ApplySucceeded")
}

// replace replaces the documents of the set "mr", which must change its checksum, and waits until they are applied.
func (a *setTest) replace(documents ...string) *resourcesv1alpha1.ManagedResource {
	a.T.Helper()
	before := ptr.Deref(a.Get("mr").Status.SecretsDataChecksum, "")
	a.Secret("mr", documents...)
	return a.awaitChecksumOtherThan(before)
}

func (a *setTest) awaitChecksumOtherThan(before string) *resourcesv1alpha1.ManagedResource {
	a.T.Helper()
	var mr *resourcesv1alpha1.ManagedResource
	a.soon(func(g Gomega) {
		mr = a.Get("mr")
		g.Expect(ptr.Deref(mr.Status.SecretsDataChecksum, "")).NotTo(Equal(before))
		g.Expect(managedresourcetest.Condition(mr, "ResourcesApplied")).
			To(Equal("True/ApplySucceeded"), "%s", managedresourcetest.Message(mr, "ResourcesApplied"))
		managedresourcetest.Judged(g, mr)
	}).Should(Succeed())
	return mr
}

// expectNoWrites reconciles the set "mr" once more, so that the controller reads every object. The only allowed write removes the
// annotation that requested it.
func (a *setTest) expectNoWrites() {
	a.T.Helper()
	a.Requests.Reset()
	a.operation("reconcile")
	a.soon(func() string { return a.Get("mr").Annotations["gardener.cloud/operation"] }).Should(BeEmpty())
	set := "PATCH /apis/resources.gardener.cloud/v1alpha1/namespaces/" + a.Namespace + "/managedresources/mr"
	a.Consistently(func() []string {
		// The health of the objects may change, so writes of the status are allowed.
		return slices.DeleteFunc(a.Requests.Writes(), func(request string) bool { return request == set+"/status" })
	}).WithTimeout(300 * time.Millisecond).Should(Equal([]string{set}))
}

func (a *setTest) operation(value string) {
	a.T.Helper()
	a.annotate("gardener.cloud/operation", value)
}

// annotate sets an annotation of the set "mr".
func (a *setTest) annotate(key, value string) {
	a.T.Helper()
	a.patch(a.Source, a.ManagedResource("mr"), fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value))
}

func (a *setTest) patch(c client.Client, object client.Object, patch string) {
	a.T.Helper()
	a.Expect(c.Patch(a.Ctx, object, client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner("kubectl-edit"))).
		To(Succeed())
}

// delete requests the deletion of the set "mr".
func (a *setTest) delete() {
	a.T.Helper()
	a.Expect(a.Source.Delete(a.Ctx, a.ManagedResource("mr"))).To(Succeed())
}

// class changes the class of the set "mr".
func (a *setTest) class(class string) {
	a.T.Helper()
	a.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = &class })
}

// conditions describes all conditions of the set "mr" as "status/reason".
func (a *setTest) conditions() map[string]string {
	a.T.Helper()
	return describeConditions(a.Get("mr"))
}

func describeConditions(mr *resourcesv1alpha1.ManagedResource) map[string]string {
	found := map[string]string{}
	for _, each := range mr.Status.Conditions {
		found[string(each.Type)] = string(each.Status) + "/" + each.Reason
	}
	return found
}

// checksPending returns the conditions of a changed set, with the given state of ResourcesApplied.
func checksPending(applied string) map[string]string {
	return map[string]string{
		"ResourcesApplied": applied, "ResourcesHealthy": "Unknown/ChecksPending",
		"ResourcesProgressing": "Unknown/ChecksPending",
	}
}

// healthyAndApplied returns the conditions of an applied and healthy set.
func healthyAndApplied() map[string]string {
	return map[string]string{
		"ResourcesApplied": "True/ApplySucceeded", "ResourcesHealthy": "True/ResourcesHealthy",
		"ResourcesProgressing": "False/ResourcesRolledOut",
	}
}

// listed returns the objects of the set's status as "apiVersion/kind/namespace/name".
func listed(mr *resourcesv1alpha1.ManagedResource) []string {
	var names []string
	for _, each := range mr.Status.Resources {
		names = append(names, strings.Join([]string{each.APIVersion, each.Kind, each.Namespace, each.Name}, "/"))
	}
	return names
}

// listedMaps returns the entries of ConfigMaps in a status.
func (a *setTest) listedMaps(names ...string) []string {
	for i, each := range names {
		names[i] = "v1/ConfigMap/" + a.Namespace + "/" + each
	}
	return names
}

// blockDeletion adds a finalizer to a ConfigMap, until unblockDeletion is called or the test ends.
func (a *setTest) blockDeletion(name string) {
	a.T.Helper()
	a.Edit(name, `{"metadata":{"finalizers":["example.com/stuck"]}}`)
	a.T.Cleanup(func() {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: name}}
		_ = a.Target.Patch(context.WithoutCancel(a.Ctx), object, client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"finalizers":null}}`)))
	})
}

func (a *setTest) unblockDeletion(name string) {
	a.T.Helper()
	a.Edit(name, `{"metadata":{"finalizers":null}}`)
}

// live reads a ConfigMap of the target that must exist.
func (a *setTest) live(name string) *corev1.ConfigMap {
	a.T.Helper()
	found := a.LiveConfigMap(name)
	a.Expect(found).NotTo(BeNil(), "ConfigMap %s does not exist", name)
	return found
}

// awaitAbsent waits until a ConfigMap does not exist.
func (a *setTest) awaitAbsent(name string) {
	a.T.Helper()
	a.soon(func() *corev1.ConfigMap { return a.LiveConfigMap(name) }).Should(BeNil())
}

// awaitDeleting waits until the deletion of a ConfigMap with a finalizer was requested.
func (a *setTest) awaitDeleting(name string) *corev1.ConfigMap {
	a.T.Helper()
	var live *corev1.ConfigMap
	a.soon(func() bool {
		live = a.LiveConfigMap(name)
		return live != nil && live.DeletionTimestamp != nil
	}).Should(BeTrue())
	return live
}

// awaitEarlierEvents creates another set and waits until it is applied. The controller has then processed all earlier events.
func (a *setTest) awaitEarlierEvents() {
	a.T.Helper()
	name := fmt.Sprintf("later-%d", len(a.Requests.Seen()))
	a.Set(name, a.ConfigMap(name, ""))
	a.AwaitApplied(name, "True/ApplySucceeded")
}

// read reads an object of any kind from the target; its content is empty if it does not exist.
func (a *setTest) read(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	a.T.Helper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	err := a.Target.Get(a.Ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return &unstructured.Unstructured{}
	}
	a.Expect(err).NotTo(HaveOccurred())
	return object
}

// creations lists the kinds of objects that the controller created, in that order, as the plural names of their URLs.
func (a *setTest) creations() []string {
	var found []string
	for _, each := range a.Requests.Seen() {
		path, isCreation := strings.CutPrefix(each, http.MethodPost+" ")
		if isCreation && !strings.Contains(path, "/authorization.k8s.io/") {
			found = append(found, path[strings.LastIndex(path, "/")+1:])
		}
	}
	return found
}

// readsOfSecret counts how often the controller read the Secret "mr".
func (a *setTest) readsOfSecret() int {
	count := 0
	for _, each := range a.Requests.Seen() {
		if each == "GET /api/v1/namespaces/"+a.Namespace+"/secrets/mr" {
			count++
		}
	}
	return count
}

// gadgets is the API group of a kind that no other test uses.
func (a *setTest) gadgets() string { return a.Namespace + ".example.com" }

// definition defines the kind Gadget.
func (a *setTest) definition() string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: Gadget, listKind: GadgetList, plural: gadgets, singular: gadget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, a.gadgets())
}

// gadget is an object of the kind Gadget; an empty namespace is left out.
func (a *setTest) gadget(namespace, name string) string {
	text := fmt.Sprintf("apiVersion: %s/v1\nkind: Gadget\nmetadata:\n  name: %s\n", a.gadgets(), name)
	if namespace != "" {
		text += "  namespace: " + namespace + "\n"
	}
	return text + "spec: {size: 1}\n"
}

// deployment is a Deployment without Pods.
func (a *setTest) deployment(name, app string, metadata ...string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: %s
  namespace: %s
%sspec:
  replicas: 0
  selector: {matchLabels: {app: %s}}
  template:
    metadata: {labels: {app: %[4]s}}
    spec: {containers: [{name: c, image: example.com/image}]}
`, name, a.Namespace, lines(metadata), app)
}

func lines(metadata []string) string {
	var b strings.Builder
	for _, each := range metadata {
		b.WriteString("  " + each + "\n")
	}
	return b.String()
}
