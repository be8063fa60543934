package applier_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

const definitionKind = "apiextensions.k8s.io/v1/CustomResourceDefinition"

// versions returns the versions of a CustomResourceDefinition: v1 and an older one.
func versions(olderIsServed bool) string {
	const each = `{"name":%q,"served":%t,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object",` +
		`"x-kubernetes-preserve-unknown-fields":true}}}`
	return "[" + fmt.Sprintf(each, "v1", true, true) + "," + fmt.Sprintf(each, "v1alpha1", olderIsServed, false) + "]"
}

// If the version of an object is not served any more, but another version of its kind is, the object still exists. So the controller must
// delete it in that other version.
func TestAnObjectIsDeletedAfterItsVersionIsNotServedAnyMore(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"the controller runs on": false, "the controller restarts": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &setTest{New(t, Options{TwoClusters: true, Configure: longSyncPeriod, Stopped: true})}
			a.Grant(a.gadgets(), "gadgets")
			definition := a.Create(fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",`+
				`"metadata":{"name":"gadgets.%[1]s"},`+
				`"spec":{"group":%[1]q,"scope":"Namespaced","names":{"kind":"Gadget","plural":"gadgets"},"versions":%s}}`, a.gadgets(), versions(true)))
			t.Cleanup(func() { _ = a.Target.Delete(context.WithoutCancel(a.Ctx), definition) })
			older := func() error {
				list := &unstructured.UnstructuredList{}
				list.SetAPIVersion(a.gadgets() + "/v1alpha1")
				list.SetKind("GadgetList")
				return a.Target.List(a.Ctx, list, client.InNamespace(a.Namespace))
			}
			a.soon(older).Should(Succeed())
			a.Start()
			a.Set("mr", strings.Replace(a.gadget(a.Namespace, "g"), "/v1\n", "/v1alpha1\n", 1))
			a.AwaitApplied("mr", succeeded)

			withdraw := func() {
				a.Patch(definitionKind, definition.GetName(), `{"spec":{"versions":`+versions(false)+`}}`)
				a.soon(older).ShouldNot(Succeed())
			}
			if restart {
				a.Restart(withdraw)
			} else {
				withdraw()
			}
			a.Delete("mr")
			a.AwaitGone("mr")
			a.Expect(a.Live(a.gadgets()+"/v1/Gadget", "g")).To(BeNil())
		})
	}
}

// A discovery is a request for the served kinds. The pause between two discoveries grows, so at most fifteen fit into the time for which
// the controller waits for the definitions of a wave.
func TestASetOfDefinitionsAndTheirObjectsNeedsFewDiscoveries(t *testing.T) {
	t.Parallel()
	a := &setTest{New(t, Options{TwoClusters: true, Configure: longSyncPeriod})}
	var documents []string
	for _, kind := range []string{"Apple", "Banana", "Cherry", "Date", "Elder"} {
		small := strings.ToLower(kind)
		a.Grant(a.gadgets(), small+"s")
		definition := strings.NewReplacer("Gadget", kind, "gadget", small).Replace(a.definition())
		documents = append(documents, definition, strings.Replace(a.gadget(a.Namespace, small), "Gadget", kind, 1))
	}
	a.Set("mr", documents...)
	a.AwaitApplied("mr", succeeded)
	discoveries := countOf(a.Requests.Seen(), "GET /apis")
	a.Expect(discoveries).To(BeNumerically("<=", 15+2), "one at the start, and one more if the kinds are served late")
	a.Expect(a.Events("mr")).NotTo(ContainElement(HavePrefix("ApplyFailed")), "the objects are applied in the same pass")
}
