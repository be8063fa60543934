package deletionprotection_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/webhook/deletionprotection"
	"github.com/espalier-dev/espalier/internal/webhook/extensionvalidation"
	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
)

const (
	path     = "/webhooks/validate-crd-deletion"
	missing  = `must have a "confirmation.gardener.cloud/deletion" annotation to delete`
	patience = 30 * time.Second
	merge    = "application/merge-patch+json"
)

// guarded is a cluster in which a running server protects the extension kinds from deletion.
type guarded struct{ *webhooktest.Env }

func cluster(t *testing.T) *guarded {
	t.Helper()
	admin := webhooktest.InstallKinds(t)
	t.Cleanup(func() { sweep(context.WithoutCancel(t.Context()), t, admin) })
	return &guarded{webhooktest.New(t, webhooktest.Options{Webhooks: "crdDeletionProtection: {enabled: true}"})}
}

// posted returns an env without webhook configurations, for requests that no API server sends.
func posted(t *testing.T) *guarded {
	t.Helper()
	return &guarded{webhooktest.New(t, webhooktest.Options{Webhooks: "crdDeletionProtection: {enabled: true}", Unregistered: true})}
}

// sweep deletes all objects of the extension kinds. It retries, because the API server may call the webhooks of a test until a moment after
// the test.
func sweep(ctx context.Context, t *testing.T, admin client.Client) {
	t.Helper()
	for _, kind := range extensionvalidation.Kinds() {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: kind.Group, Version: "v1alpha1", Kind: kind.Kind + "List"})
		if err := admin.List(ctx, list); apierrors.IsNotFound(err) {
			continue // the definition was deleted
		}
		for i := range list.Items {
			NewWithT(t).Eventually(func() error { return client.IgnoreNotFound(admin.Delete(ctx, &list.Items[i])) }, patience).Should(Succeed())
		}
	}
}

// object creates an object of a kind. The test deletes it at its end.
func (c *guarded) object(kind extensionvalidation.Kind, name string) *unstructured.Unstructured {
	c.T.Helper()
	object := webhooktest.ObjectOf(kind, c.Namespace, name)
	c.Expect(c.Target.Create(c.Ctx, object)).To(Succeed())
	return object
}

// confirm sets the annotation that confirms a deletion.
func (c *guarded) confirm(object client.Object, value string) error {
	changes := fmt.Sprintf(`{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":%q}}}`, value)
	return c.Target.Patch(c.Ctx, object, client.RawPatch(merge, []byte(changes)))
}

func (c *guarded) delete(object client.Object) error { return c.Target.Delete(c.Ctx, object) }

// expectGone requires that an object no longer exists.
func (c *guarded) expectGone(object client.Object) {
	c.T.Helper()
	c.Eventually(func() bool {
		return apierrors.IsNotFound(c.Target.Get(c.Ctx, client.ObjectKeyFromObject(object), object))
	}, patience).Should(BeTrue(), object.GetName())
}

// protectedKinds returns all extension kinds but Bastion.
func protectedKinds() []extensionvalidation.Kind {
	var kinds []extensionvalidation.Kind
	for _, kind := range extensionvalidation.Kinds() {
		if kind.Kind != "Bastion" {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func kindOf(kind string) extensionvalidation.Kind {
	for _, each := range extensionvalidation.Kinds() {
		if each.Kind == kind {
			return each
		}
	}
	return extensionvalidation.Kind{}
}

// requests returns one request for each protected resource, as YAML that lacks the fields that callers append.
func requests(operation string) []string {
	of := func(group, version, kind, resource string) string {
		return fmt.Sprintf("operation: %s\nkind: {group: %s, version: %s, kind: %s}\nresource: {group: %s, version: %s, resource: %s}\n",
			operation, group, version, kind, group, version, resource)
	}
	all := []string{
		of("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"),
		of("apiextensions.k8s.io", "v1beta1", "CustomResourceDefinition", "customresourcedefinitions"),
	}
	for _, kind := range protectedKinds() {
		all = append(all, of(kind.Group, "v1alpha1", kind.Kind, kind.Plural))
	}
	return all
}

func verdict(answer webhooktest.Answer) string {
	return fmt.Sprintf("%t %d %s", answer.Allowed, answer.Status.Code, answer.Status.Message)
}

func TestServerAllowsOtherOperations(t *testing.T) {
	c := cluster(t)
	for _, operation := range []string{"CREATE", "UPDATE", "CONNECT"} {
		for _, request := range requests(operation) {
			c.Expect(verdict(c.Review(path, request+"name: one"))).To(Equal("true 200 operation is not DELETE"))
		}
	}
	object := c.object(kindOf("Worker"), "w")
	_, err := c.Update(object, `{"spec":{"a":"b"}}`)
	c.Expect(err).NotTo(HaveOccurred())
}

func TestServerAllowsOtherResources(t *testing.T) {
	c := posted(t)
	answer := c.Review(path, "{operation: DELETE, name: one, resource: {group: foo, version: bar, resource: baz}}")
	c.Expect(verdict(answer)).To(Equal("true 200 resource is not deletion-protected"))
}

// API servers send only JSON, and a review cannot contain anything else.
func TestUndecodableObjectOfEveryKindIsAnError(t *testing.T) {
	g := NewWithT(t)
	for _, kind := range protectedKinds() {
		request := review.Request{Operation: "DELETE", Name: "n"}
		request.Resource.Group, request.Resource.Version, request.Resource.Resource = kind.Group, "v1alpha1", kind.Plural
		old, current := request, request
		old.OldObject, current.Object = []byte("foo"), []byte("foo")
		for _, each := range []review.Request{old, current} {
			response := (&deletionprotection.Handler{}).Handle(t.Context(), &each)
			g.Expect(response.Allowed).To(BeFalse(), kind.Kind)
			g.Expect(response.Code).To(BeEquivalentTo(500), kind.Kind)
			g.Expect(response.Message).To(ContainSubstring("invalid character"), kind.Kind)
		}
	}
}

func TestDeletionOfAnObjectNeedsTheAnnotation(t *testing.T) {
	c := cluster(t)
	const confirmed = `{metadata: {annotations: {confirmation.gardener.cloud/deletion: "true"}}}`
	for _, request := range requests("DELETE") {
		for _, member := range []string{"oldObject", "object"} {
			c.Expect(verdict(c.Review(path, request+"name: one\n"+member+": {metadata: {name: one}}"))).To(Equal("false 403 " + missing))
			c.Expect(verdict(c.Review(path, request+"name: one\n"+member+": "+confirmed))).To(Equal("true 200 "))
		}
	}
	for _, kind := range protectedKinds() {
		object := c.object(kind, "o")
		c.Expect(c.delete(object)).
			To(MatchError(And(HavePrefix(`admission webhook "cr-deletion-protection.resources.gardener.cloud" denied the request: `),
				ContainSubstring(missing))), kind.Kind)
		c.Expect(c.confirm(object, "true")).To(Succeed())
		c.Expect(c.delete(object)).To(Succeed(), kind.Kind)
		c.expectGone(object)
	}
}

func TestOnlyTrueValuesConfirmADeletion(t *testing.T) {
	c := cluster(t)
	for _, value := range []string{"yes", "false", ""} {
		object := c.object(kindOf("DNSRecord"), "refused-"+value+"x")
		c.Expect(c.confirm(object, value)).To(Succeed())
		c.Expect(c.delete(object)).To(MatchError(ContainSubstring(missing)), value)
	}
	for i, value := range []string{"1", "t", "T", "true", "TRUE", "True"} {
		object := c.object(kindOf("DNSRecord"), fmt.Sprint("allowed-", i))
		c.Expect(c.confirm(object, value)).To(Succeed())
		c.Expect(c.delete(object)).To(Succeed(), value)
	}
}

func TestDeletionOfAnObjectWithoutItsContentIsAnError(t *testing.T) {
	c := posted(t)
	for _, request := range requests("DELETE") {
		c.Expect(verdict(c.Review(path, request+"name: one"))).To(Equal("false 500 no object found in admission request"))
	}
}

// failing is a reader whose List returns an error.
type failing struct {
	client.Reader
	err error
}

func (f failing) List(context.Context, client.ObjectList, ...client.ListOption) error { return f.err }

// No API server fails on request, so a stub returns the errors. TestDefinitionsAreDeletedTogetherOnlyIfAllAreConfirmed covers a list that
// is not found.
func TestErrorsOfListsAreInTheResponse(t *testing.T) {
	g := NewWithT(t)
	request := &review.Request{Operation: "DELETE"}
	request.Resource.Group, request.Resource.Version, request.Resource.Resource = "extensions.gardener.cloud", "v1alpha1", "workers"
	for err, want := range map[error]review.Response{
		errors.New("fake"): {Code: 500, Message: "fake"},
		apierrors.NewNotFound(request.Resource.GroupResource(), "n"): {Allowed: true, Code: 200, Message: "object was not found"},
	} {
		g.Expect((&deletionprotection.Handler{Source: failing{err: err}}).Handle(t.Context(), request)).To(Equal(want))
	}
}

func TestDeletionOfACollectionNeedsTheAnnotationOnAllObjects(t *testing.T) {
	c := cluster(t)
	for _, kind := range protectedKinds() {
		one, other := c.object(kind, "one"), c.object(kind, "other")
		all := webhooktest.ObjectOf(kind, c.Namespace, "")
		c.Expect(c.confirm(one, "true")).To(Succeed())
		everything := func() error { return c.Target.DeleteAllOf(c.Ctx, all, client.InNamespace(all.GetNamespace())) }
		c.Expect(everything()).To(MatchError(ContainSubstring(missing)), kind.Kind)
		selected := func() error {
			return c.Target.DeleteAllOf(c.Ctx, all, client.InNamespace(all.GetNamespace()), client.MatchingFields{"metadata.name": "one"})
		}
		c.Expect(selected()).To(MatchError(ContainSubstring(missing)), "a sibling that is not selected counts as well: %s", kind.Kind)
		c.Expect(c.Target.Get(c.Ctx, client.ObjectKeyFromObject(one), one)).To(Succeed())
		c.Expect(c.confirm(other, "T")).To(Succeed())
		c.Expect(everything()).To(Succeed(), kind.Kind)
		c.expectGone(one)
		c.expectGone(other)
	}
}

func TestCollectionsOfOtherNamespacesDoNotCount(t *testing.T) {
	c := cluster(t)
	kind := kindOf("Worker")
	elsewhere := webhooktest.ObjectOf(kind, "default", "elsewhere")
	c.Expect(c.Target.Create(c.Ctx, elsewhere)).To(Succeed())
	defer func() { c.Expect(c.delete(elsewhere)).To(Succeed()) }() // webhooks are registered for the test's namespace
	here := c.object(kind, "here")
	c.Expect(c.confirm(here, "true")).To(Succeed())
	c.Expect(c.Target.DeleteAllOf(c.Ctx, webhooktest.ObjectOf(kind, "", ""), client.InNamespace(c.Namespace))).To(Succeed())
	c.expectGone(here)
}

func TestDeletionOfACollectionIsDecidedByTheList(t *testing.T) {
	c := cluster(t)
	request := "operation: DELETE\nnamespace: $NS\nkind: {group: extensions.gardener.cloud, version: v1alpha1, kind: Worker}\nresource: " +
		"{group: extensions.gardener.cloud, version: v1alpha1, resource: workers}\n"
	const confirmed, not = `oldObject: {metadata: {annotations: ` +
		`{confirmation.gardener.cloud/deletion: "true"}}}`, "oldObject: {metadata: {name: w}}"
	c.Expect(verdict(c.Review(path, request+not))).To(Equal("true 200 "), "the list is empty")
	object := c.object(kindOf("Worker"), "w")
	c.Expect(verdict(c.Review(path, request+confirmed))).To(Equal("false 403 " + missing))
	c.Expect(c.confirm(object, "true")).To(Succeed())
	c.Expect(verdict(c.Review(path, request+not))).To(Equal("true 200 "))
}

func TestObjectsOfEveryProtectedKindNeedTheAnnotation(t *testing.T) {
	c := cluster(t)
	for _, kind := range protectedKinds() {
		c.Expect(c.delete(c.object(kind, "o"))).To(MatchError(ContainSubstring("annotation to delete")), kind.Kind)
	}
	for _, kind := range extensionvalidation.Kinds() {
		c.Expect(c.delete(webhooktest.Definition(kind))).
			To(MatchError(And(HavePrefix(`admission webhook "crd-deletion-protection.resources.gardener.cloud" denied the request: `),
				ContainSubstring("annotation to delete"))), kind.Kind)
	}
}

func TestDefinitionsAreDeletedTogetherOnlyIfAllAreConfirmed(t *testing.T) {
	c := cluster(t)
	kinds := extensionvalidation.Kinds()
	worker := requests("DELETE")[len(kinds)] // the last request
	c.Expect(verdict(c.Review(path, worker))).To(Equal("true 200 "), "there are none")
	object := c.object(kindOf("Worker"), "inside")
	all := webhooktest.Definition(kinds[0])
	labelled := client.MatchingLabels{"gardener.cloud/deletion-protected": "true"}
	for _, kind := range kinds[1:] {
		c.Expect(c.confirm(webhooktest.Definition(kind), "true")).To(Succeed())
	}
	c.Expect(c.Target.DeleteAllOf(c.Ctx, all, labelled)).To(MatchError(ContainSubstring(missing)))
	for _, kind := range kinds {
		definition := webhooktest.Definition(kind)
		c.Expect(c.Target.Get(c.Ctx, client.ObjectKeyFromObject(definition), definition)).To(Succeed())
		c.Expect(definition.GetDeletionTimestamp()).To(BeNil(), kind.Kind)
	}
	c.Expect(c.confirm(all.DeepCopy(), "true")).To(Succeed())
	c.Expect(c.Target.DeleteAllOf(c.Ctx, all, labelled)).To(Succeed())
	for _, kind := range kinds {
		c.expectGone(webhooktest.Definition(kind))
	}
	c.Expect(apierrors.IsNotFound(c.Target.Get(c.Ctx, client.ObjectKeyFromObject(object), object))).To(BeTrue())
	c.Expect(verdict(c.Review(path, worker))).To(Equal("true 200 object was not found"))
}

func TestDefinitionsWithoutTheLabel(t *testing.T) {
	c := cluster(t)
	plain := kindOf("Worker")
	plain.Group, plain.Plural, plain.Kind = "example.com", "things", "Thing"
	definition := webhooktest.Definition(plain)
	definition.SetLabels(nil)
	c.Expect(c.Target.Create(c.Ctx, definition)).To(Succeed())
	answer := c.Review(path, requests("DELETE")[0]+"name: things.example.com\noldObject: {metadata: {name: things.example.com}}")
	c.Expect(verdict(answer)).To(Equal("false 403 "+missing), "every user gets the verdict")
	c.Expect(verdict(c.Review(path, requests("DELETE")[0]+"oldObject: {}"))).
		To(Equal("false 403 "+missing), "the others, which are labelled, are not confirmed")
	c.Expect(c.delete(definition)).To(Succeed(), "the API server does not ask")
	c.expectGone(definition)
}

func TestPodsAreDeletedWithoutTheAnnotation(t *testing.T) {
	c := cluster(t)
	pod := c.CreatePod(`{metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}`)
	c.Expect(c.Target.Delete(c.Ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
	c.expectGone(pod)
}

func TestBastionsAreDeletedWithoutTheAnnotation(t *testing.T) {
	c := cluster(t)
	one := c.object(kindOf("Bastion"), "one")
	c.Expect(c.delete(one)).To(Succeed())
	c.expectGone(one)
	two := c.object(kindOf("Bastion"), "two")
	c.Expect(c.Target.DeleteAllOf(c.Ctx, webhooktest.ObjectOf(kindOf("Bastion"), "", ""), client.InNamespace(c.Namespace))).To(Succeed())
	c.expectGone(two)
	answer := c.Review(path, "{operation: DELETE, name: one, resource: {group: extensions.gardener.cloud, version: v1alpha1, "+
		"resource: bastions}}")
	c.Expect(verdict(answer)).To(Equal("true 200 resource is not deletion-protected"))
}

func TestDryRunsGetTheSameVerdict(t *testing.T) {
	c := cluster(t)
	object := c.object(kindOf("Worker"), "w")
	c.Expect(c.Target.Delete(c.Ctx, object, client.DryRunAll)).To(MatchError(ContainSubstring(missing)))
	c.Expect(c.confirm(object, "true")).To(Succeed())
	c.Expect(c.Target.Delete(c.Ctx, object, client.DryRunAll)).To(Succeed())
	c.Expect(c.Target.Get(c.Ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
}
