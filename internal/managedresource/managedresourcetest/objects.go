package managedresourcetest

import (
	"fmt"
	"path"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Within returns the Env for a subtest, so that failures are failures of the subtest. The controller keeps running when the subtest ends.
func (e *Env) Within(t *testing.T) *Env {
	t.Helper()
	sub := *e.Env
	sub.T, sub.WithT = t, NewWithT(t)
	return &Env{&sub}
}

// Fill replaces every "$NS" in a text by the env's namespace, which is also a prefix for names of cluster-scoped objects.
func (e *Env) Fill(text string) string { return strings.ReplaceAll(text, "$NS", e.Namespace) }

// object returns an empty object of the target. For cluster-scoped kinds, clients ignore the namespace.
func (e *Env) object(kind, name string) *unstructured.Unstructured {
	e.T.Helper()
	e.Expect(kind).To(ContainSubstring("/"), "a kind must be like apps/v1/Deployment")
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(path.Dir(kind))
	object.SetKind(path.Base(kind))
	object.SetNamespace(e.Namespace)
	object.SetName(name)
	return object
}

// Live reads an object of the target, of a kind like "apps/v1/Deployment"; nil if it does not exist.
func (e *Env) Live(kind, name string) *unstructured.Unstructured {
	e.T.Helper()
	live := e.object(kind, name)
	if !e.read(live) {
		return nil
	}
	return live
}

// read reads an object of the target, and reports whether it exists.
func (e *Env) read(object client.Object) bool {
	e.T.Helper()
	err := e.Target.Get(e.Ctx, client.ObjectKeyFromObject(object), object)
	e.Expect(client.IgnoreNotFound(err)).To(Succeed())
	return err == nil
}

// Await waits until an object of the target passes a check, and returns it.
func (e *Env) Await(kind, name string, check func(g Gomega, live *unstructured.Unstructured)) *unstructured.Unstructured {
	e.T.Helper()
	var live *unstructured.Unstructured
	e.Eventually(func(g Gomega) {
		live = e.Live(kind, name)
		g.Expect(live).NotTo(BeNil())
		check(g, live)
	}).WithTimeout(Patience).Should(Succeed())
	return live
}

// AwaitAbsent waits until an object of the target does not exist.
func (e *Env) AwaitAbsent(kind, name string) {
	e.T.Helper()
	e.Eventually(func() *unstructured.Unstructured { return e.Live(kind, name) }).WithTimeout(Patience).
		Should(BeNil())
}

// Patch changes an object of the target by a merge patch, as another field manager, and returns it.
func (e *Env) Patch(kind, name, patch string) *unstructured.Unstructured {
	e.T.Helper()
	object := e.object(kind, name)
	e.Expect(e.Target.Patch(e.Ctx, object, client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner("kubectl-edit"))).
		To(Succeed())
	return object
}

// PatchStatus changes the status of an object of the target by a merge patch, as another field manager.
func (e *Env) PatchStatus(kind, name, patch string) {
	e.T.Helper()
	e.Expect(e.Target.Status().Patch(e.Ctx, e.object(kind, name), client.RawPatch("application/merge-patch+json", []byte(patch)),
		client.FieldOwner("kubectl-edit"))).To(Succeed())
}

// Create creates an object in the target directly, without a set.
func (e *Env) Create(manifest string) *unstructured.Unstructured {
	e.T.Helper()
	object := &unstructured.Unstructured{}
	e.Expect(yaml.Unmarshal([]byte(manifest), &object.Object)).To(Succeed())
	e.Expect(e.Target.Create(e.Ctx, object, client.FieldOwner("kubectl-create"))).To(Succeed())
	return object
}

// Remove deletes an object of the target.
func (e *Env) Remove(kind, name string) {
	e.T.Helper()
	e.Expect(e.Target.Delete(e.Ctx, e.object(kind, name))).To(Succeed())
}

// Field returns the value at a path of an object, nil if there is none.
func Field(object *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
	return value
}

// Look makes the controller read every object of a set, and returns the writes of the controller, except for patches of the set itself and
// of the status of the set.
func (e *Env) Look(name string) []string {
	e.T.Helper()
	e.Requests.Reset()
	e.Reconciled(name)
	seen := e.Requests.Seen()
	for _, ref := range e.Get(name).Status.Resources {
		e.Expect(seen).To(ContainElement("GET " + e.path(ref)))
	}
	own := fmt.Sprintf("PATCH /apis/resources.gardener.cloud/v1alpha1/namespaces/%s/managedresources/%s", e.Namespace, name)
	var writes []string
	for _, each := range e.Requests.Writes() {
		if each != own && each != own+"/status" {
			writes = append(writes, each)
		}
	}
	return writes
}

// Reconciled returns after the controller has reconciled a set once more, and has read all objects of the set that it may write.
// The controller processes a set in one pass after the other: when the second pass begins, the first is over.
func (e *Env) Reconciled(name string) {
	e.T.Helper()
	e.ask(name)
	e.ask(name)
}

// ask requests a reconciliation by an annotation and waits until the controller has removed that annotation.
func (e *Env) ask(name string) {
	e.T.Helper()
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"gardener.cloud/operation":"reconcile"}}}`))
	e.Expect(e.Source.Patch(e.Ctx, mr, patch)).To(Succeed())
	e.Eventually(func() map[string]string { return e.Get(name).Annotations }).WithTimeout(Patience).
		ShouldNot(HaveKey("gardener.cloud/operation"))
}

// path is the URL path of an object in the target.
func (e *Env) path(ref resourcesv1alpha1.ObjectReference) string {
	kind := ref.GroupVersionKind()
	mapping, err := e.Target.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	e.Expect(err).NotTo(HaveOccurred())
	url := "/apis/" + kind.GroupVersion().String()
	if kind.Group == "" {
		url = "/api/" + kind.Version
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		url += "/namespaces/" + ref.Namespace
	}
	return url + "/" + mapping.Resource.Resource + "/" + ref.Name
}

// Fence waits until all earlier changes of sets, Secrets and ConfigMaps have reached the controller: it changes a set, a Secret and a
// ConfigMap of its own, and waits for the effect.
func (e *Env) Fence() {
	e.T.Helper()
	name := "fence-" + rand.String(8)
	e.Set(name, e.ConfigMap(name, "created"))
	e.AwaitApplied(name, "True/ApplySucceeded")
	for _, value := range []string{"changed", "changed again"} {
		e.Edit(name, `{"data":{"key":"drifted"}}`)
		e.AwaitData(name, map[string]string{"changed": "created", "changed again": "changed"}[value])
		e.Secret(name, e.ConfigMap(name, value))
		e.AwaitData(name, value)
	}
}

// Define creates a CustomResourceDefinition in the target, unless it exists, for a namespaced kind without a schema. It gives the
// controller the rights on objects of this kind, and waits until the API server serves the kind. A running controller may take a minute to
// discover the kind.
func (e *Env) Define(group, version, kind string) {
	e.T.Helper()
	plural := strings.ToLower(kind) + "s"
	definition := &unstructured.Unstructured{}
	e.Expect(yaml.Unmarshal(fmt.Appendf(nil, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[3]s.%[1]s, annotations: {api-approved.kubernetes.io: 'unapproved, for tests only'}}
spec:
  group: %[1]s
  names: {kind: %[4]s, listKind: %[4]sList, plural: %[3]s, singular: %[5]s}
  scope: Namespaced
  versions:
  - {name: %[2]s, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, group, version, plural, kind, strings.ToLower(kind)), &definition.Object)).To(Succeed())
	e.Expect(e.Target.Create(e.Ctx, definition)).To(Or(Succeed(), MatchError(apierrors.IsAlreadyExists, "exists already")))
	e.Grant(group, plural)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind + "List"})
	e.Eventually(func() error { return e.Target.List(e.Ctx, list, client.InNamespace(e.Namespace)) }).WithTimeout(Patience).
		Should(Succeed())
}

// AwaitChange waits until a set is applied with other Secret data than in the given version of the set.
func (e *Env) AwaitChange(before *resourcesv1alpha1.ManagedResource) *resourcesv1alpha1.ManagedResource {
	e.T.Helper()
	e.Eventually(func() *string { return e.Get(before.Name).Status.SecretsDataChecksum }).WithTimeout(Patience).
		ShouldNot(Equal(before.Status.SecretsDataChecksum))
	return e.AwaitApplied(before.Name, "True/ApplySucceeded")
}

// Delete requests the deletion of a set.
func (e *Env) Delete(name string) {
	e.T.Helper()
	e.Expect(e.Source.Delete(e.Ctx, e.ManagedResource(name))).To(Succeed())
}

// Counter reads a counter or gauge of the controller.
func (e *Env) Counter(name string) float64 {
	e.T.Helper()
	families, err := e.Registry.Gather()
	e.Expect(err).NotTo(HaveOccurred())
	sum := 0.0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == name {
				sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	return sum
}
