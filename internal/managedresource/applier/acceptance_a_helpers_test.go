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

// statement is one entry of the specification: an acceptance statement of section 12 or an edge case of section 9.
type statement struct {
	run func(a *scene)
	// everywhere runs it with one cluster and with two; otherwise there is one.
	everywhere bool
	// apart runs it with two clusters only.
	apart bool
	// configure changes the configuration; nil leaves it.
	configure func(*config.ResourceManagerConfiguration)
}

// scene is an Env with what the statements have in common.
type scene struct{ *managedresourcetest.Env }

// verify runs every statement in an environment in which nothing happens by the clock: the period between two looks at
// an unchanged set is an hour, so whatever is seen was caused by an event.
func verify(t *testing.T, statements map[string]statement) {
	t.Helper()
	for name, s := range statements {
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

func (s statement) perform(t *testing.T, two bool) {
	t.Helper()
	t.Parallel()
	s.run(&scene{managedresourcetest.New(t, managedresourcetest.Options{
		TwoClusters: two,
		Configure: func(cfg *config.ResourceManagerConfiguration) {
			cfg.Controllers.ManagedResource.SyncPeriod = &metav1.Duration{Duration: time.Hour}
			if s.configure != nil {
				s.configure(cfg)
			}
		},
	})})
}

// step is a part of a statement with a name of its own.
func (a *scene) step(name string, run func(a *scene)) {
	a.T.Helper()
	a.T.Run(name, func(t *testing.T) {
		inner := *a.Env
		inner.T, inner.WithT = t, NewWithT(t)
		run(&scene{&inner})
	})
}

// soon waits until something holds.
func (a *scene) soon(actual any) AsyncAssertion {
	a.T.Helper()
	return a.Eventually(actual).WithTimeout(managedresourcetest.Patience).WithPolling(10 * time.Millisecond)
}

// set creates the set "mr" and waits until it is applied.
func (a *scene) set(documents ...string) *resourcesv1alpha1.ManagedResource {
	a.T.Helper()
	a.Set("mr", documents...)
	return a.AwaitApplied("mr", "True/ApplySucceeded")
}

// next replaces the documents of the set "mr", which must change its checksum, and waits until that is applied.
func (a *scene) next(documents ...string) *resourcesv1alpha1.ManagedResource {
	a.T.Helper()
	before := ptr.Deref(a.Get("mr").Status.SecretsDataChecksum, "")
	a.Secret("mr", documents...)
	return a.awaitChecksumOtherThan(before)
}

func (a *scene) awaitChecksumOtherThan(before string) *resourcesv1alpha1.ManagedResource {
	a.T.Helper()
	var mr *resourcesv1alpha1.ManagedResource
	a.soon(func(g Gomega) {
		mr = a.Get("mr")
		g.Expect(ptr.Deref(mr.Status.SecretsDataChecksum, "")).NotTo(Equal(before))
		g.Expect(managedresourcetest.Condition(mr, "ResourcesApplied")).To(Equal("True/ApplySucceeded"), "%s", managedresourcetest.Message(mr, "ResourcesApplied"))
		managedresourcetest.Judged(g, mr)
	}).Should(Succeed())
	return mr
}

// quiet reconciles the set "mr" once more, with a look at every object, and requires that nothing is written but the
// annotation that asked for it.
func (a *scene) quiet() {
	a.T.Helper()
	a.Requests.Reset()
	a.operation("reconcile")
	a.soon(func() string { return a.Get("mr").Annotations["gardener.cloud/operation"] }).Should(BeEmpty())
	set := "PATCH /apis/resources.gardener.cloud/v1alpha1/namespaces/" + a.Namespace + "/managedresources/mr"
	a.Consistently(func() []string {
		return slices.DeleteFunc(a.Requests.Writes(), func(request string) bool { return request == set+"/status" }) // how objects fare may change
	}).WithTimeout(300 * time.Millisecond).Should(Equal([]string{set}))
}

func (a *scene) operation(value string) {
	a.T.Helper()
	a.annotate("gardener.cloud/operation", value)
}

// annotate sets an annotation of the set "mr".
func (a *scene) annotate(key, value string) {
	a.T.Helper()
	a.patch(a.Source, a.ManagedResource("mr"), fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value))
}

func (a *scene) patch(c client.Client, object client.Object, patch string) {
	a.T.Helper()
	a.Expect(c.Patch(a.Ctx, object, client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner("kubectl-edit"))).To(Succeed())
}

// delete asks for the deletion of the set "mr".
func (a *scene) delete() {
	a.T.Helper()
	a.Expect(a.Source.Delete(a.Ctx, a.ManagedResource("mr"))).To(Succeed())
}

// class changes the class of the set "mr".
func (a *scene) class(class string) {
	a.T.Helper()
	a.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = &class })
}

// conditions describes all conditions of the set "mr" as "status/reason".
func (a *scene) conditions() map[string]string {
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

// checksPending is what the health conditions of a changed set say, beside the given state of ResourcesApplied.
func checksPending(applied string) map[string]string {
	return map[string]string{"ResourcesApplied": applied, "ResourcesHealthy": "Unknown/ChecksPending", "ResourcesProgressing": "Unknown/ChecksPending"}
}

// wellAndApplied is what the conditions of a set say of which nothing is wrong.
func wellAndApplied() map[string]string {
	return map[string]string{"ResourcesApplied": "True/ApplySucceeded", "ResourcesHealthy": "True/ResourcesHealthy", "ResourcesProgressing": "False/ResourcesRolledOut"}
}

// listed names the objects of the set's status as "apiVersion/kind/namespace/name".
func listed(mr *resourcesv1alpha1.ManagedResource) []string {
	var names []string
	for _, each := range mr.Status.Resources {
		names = append(names, strings.Join([]string{each.APIVersion, each.Kind, each.Namespace, each.Name}, "/"))
	}
	return names
}

// listedMaps names the ConfigMaps that a status is to list, in its order.
func (a *scene) listedMaps(names ...string) []string {
	for i, each := range names {
		names[i] = "v1/ConfigMap/" + a.Namespace + "/" + each
	}
	return names
}

// hold keeps a ConfigMap from going away when it is deleted, until free is called or the test ends.
func (a *scene) hold(name string) {
	a.T.Helper()
	a.Edit(name, `{"metadata":{"finalizers":["example.com/stuck"]}}`)
	a.T.Cleanup(func() {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: name}}
		_ = a.Target.Patch(context.WithoutCancel(a.Ctx), object, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
	})
}

func (a *scene) free(name string) {
	a.T.Helper()
	a.Edit(name, `{"metadata":{"finalizers":null}}`)
}

// live reads a ConfigMap of the target that must exist.
func (a *scene) live(name string) *corev1.ConfigMap {
	a.T.Helper()
	found := a.LiveConfigMap(name)
	a.Expect(found).NotTo(BeNil(), "ConfigMap %s does not exist", name)
	return found
}

// awaitAbsent waits until a ConfigMap does not exist.
func (a *scene) awaitAbsent(name string) {
	a.T.Helper()
	a.soon(func() *corev1.ConfigMap { return a.LiveConfigMap(name) }).Should(BeNil())
}

// awaitDeleting waits until somebody asked for the deletion of a ConfigMap that is held.
func (a *scene) awaitDeleting(name string) *corev1.ConfigMap {
	a.T.Helper()
	var live *corev1.ConfigMap
	a.soon(func() bool {
		live = a.LiveConfigMap(name)
		return live != nil && live.DeletionTimestamp != nil
	}).Should(BeTrue())
	return live
}

// settled waits until another set is applied that was created after everything else: what was to happen by events
// before that has happened.
func (a *scene) settled() {
	a.T.Helper()
	name := fmt.Sprintf("later-%d", len(a.Requests.Seen()))
	a.Set(name, a.ConfigMap(name, ""))
	a.AwaitApplied(name, "True/ApplySucceeded")
}

// read reads an object of any kind from the target; its content is empty if it does not exist.
func (a *scene) read(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
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
func (a *scene) creations() []string {
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
func (a *scene) readsOfSecret() int {
	count := 0
	for _, each := range a.Requests.Seen() {
		if each == "GET /api/v1/namespaces/"+a.Namespace+"/secrets/mr" {
			count++
		}
	}
	return count
}

// gadgets is the group of a kind that no other test has.
func (a *scene) gadgets() string { return a.Namespace + ".example.com" }

// definition defines the kind Gadget.
func (a *scene) definition() string {
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
func (a *scene) gadget(namespace, name string) string {
	text := fmt.Sprintf("apiVersion: %s/v1\nkind: Gadget\nmetadata:\n  name: %s\n", a.gadgets(), name)
	if namespace != "" {
		text += "  namespace: " + namespace + "\n"
	}
	return text + "spec: {size: 1}\n"
}

// deployment is a Deployment without Pods.
func (a *scene) deployment(name, app string, metadata ...string) string {
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
