package applier_test

import (
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

func TestAnIgnoredManifestIsCreatedOnceAndDeletedWithItsSet(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		const ignore = `annotations: {resources.gardener.cloud/ignore: "true", resources.gardener.cloud/description: wrong}`
		e.Set("mr", e.ConfigMap("c", "1", ignore))
		before := e.AwaitApplied("mr", "True/ApplySucceeded")
		live := e.LiveConfigMap("c")
		e.Expect(live.Annotations).To(Equal(map[string]string{"resources.gardener.cloud/ignore": "true"}))
		e.Expect(live.Labels).To(BeEmpty())

		e.Edit("c", `{"data":{"key":"by hand"}}`)
		e.Expect(e.Look("mr")).To(BeEmpty())
		e.Secret("mr", e.ConfigMap("c", "2", ignore))
		before = e.AwaitChange(before)
		e.Expect(e.LiveConfigMap("c").Data).To(Equal(map[string]string{"key": "by hand"}))
		e.Expect(before.Status.Resources).To(HaveLen(1))

		e.Delete("mr")
		e.AwaitGone("mr")
		e.Expect(e.LiveConfigMap("c")).To(BeNil())
	})
}

func TestOnlyTheDescriptionIsRemovedFromAnIgnoredObject(t *testing.T) {
	e := inOneCluster(t)
	e.Set("mr", e.ConfigMap("c", "1", `annotations: {resources.gardener.cloud/ignore: "1"}`))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Edit("c", `{"data":{"key":"by hand"},"metadata":{"annotations":{"resources.gardener.cloud/description":"wrong","mine":"yes"}}}`)
	e.Expect(e.Look("mr")).To(Equal([]string{"PUT /api/v1/namespaces/" + e.Namespace + "/configmaps/c"}))
	live := e.LiveConfigMap("c")
	e.Expect(live.Annotations).To(Equal(map[string]string{"resources.gardener.cloud/ignore": "1", "mine": "yes"}))
	e.Expect(live.Data).To(Equal(map[string]string{"key": "by hand"}))
}

func TestAnIgnoredObjectThatAUserDeletesIsRecreated(t *testing.T) {
	e := inOneCluster(t)
	e.Set("mr", e.ConfigMap("c", "1", `annotations: {resources.gardener.cloud/ignore: "true"}`))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Remove(configMapKind, "c")
	e.AwaitData("c", "1")
}

func ignoreSet(e *managedresourcetest.Env, value string) {
	e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Annotations = map[string]string{"resources.gardener.cloud/ignore": value}
	})
}

func TestAnIgnoredSetIsNotReconciled(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		e.Set("mr", e.ConfigMap("c", "1"))
		e.AwaitApplied("mr", "True/ApplySucceeded")
		ignoreSet(e, "true")
		before := e.AwaitApplied("mr", "True/ManagedResourceIgnored")
		e.Expect(conditions(before)).To(Equal(map[string]string{
			"ResourcesApplied":     "True/ManagedResourceIgnored: ManagedResource is marked to be ignored.",
			"ResourcesHealthy":     "True/ManagedResourceIgnored: ManagedResource is marked to be ignored.",
			"ResourcesProgressing": "False/ManagedResourceIgnored: ManagedResource is marked to be ignored.",
		}))
		recording := e.Requests.Record()
		e.Edit("c", `{"data":{"key":"by hand"}}`)
		e.Secret("mr", e.ConfigMap("c", "2"), e.ConfigMap("d", "2"))
		e.Fence()
		e.Expect(e.LiveConfigMap("c").Data).To(Equal(map[string]string{"key": "by hand"}))
		e.Expect(e.LiveConfigMap("d")).To(BeNil())
		e.Expect(e.Get("mr")).To(BeComparableTo(before))
		e.Expect(recording.RequestsTo("PUT", "/api/v1/namespaces/"+e.Namespace+"/configmaps/c")).To(BeEmpty())
	})
}

// conditions lists the conditions of a set as "status/reason: message" by type.
func conditions(mr *resourcesv1alpha1.ManagedResource) map[string]string {
	found := map[string]string{}
	for _, each := range mr.Status.Conditions {
		found[string(each.Type)] = string(each.Status) + "/" + each.Reason + ": " + each.Message
	}
	return found
}

func TestASetThatIsNoLongerIgnoredIsApplied(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		meanwhile func(e *managedresourcetest.Env)
		want      string
	}{
		"an edit by hand is reverted": {meanwhile: func(e *managedresourcetest.Env) { e.Edit("c", `{"data":{"key":"by hand"}}`) }, want: "1"},
		"an edit by hand is reverted by another process": {
			meanwhile: func(e *managedresourcetest.Env) { e.Restart(func() { e.Edit("c", `{"data":{"key":"by hand"}}`) }) }, want: "1",
		},
		"a change of the Secret is applied": {meanwhile: func(e *managedresourcetest.Env) { e.Secret("mr", e.ConfigMap("c", "2")) }, want: "2"},
	} {
		t.Run(name, func(t *testing.T) {
			e := inOneCluster(t)
			e.Set("mr", e.ConfigMap("c", "1"))
			e.AwaitApplied("mr", "True/ApplySucceeded")
			ignoreSet(e, "true")
			e.AwaitApplied("mr", "True/ManagedResourceIgnored")
			tc.meanwhile(e)
			ignoreSet(e, "false")
			e.AwaitApplied("mr", "True/ApplySucceeded")
			e.AwaitData("c", tc.want)
		})
	}
}
