package documented_test

import (
	. "github.com/onsi/gomega"

	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// objectExamples are the examples for annotations that control the lifetime of an object and how it is judged.
func objectExamples() map[string]example {
	return map[string]example{
		"mode": mode(), "ignored-object": ignoredObject(), "keep-object": keepObject(),
		"finalize-deletion-after": finalizeDeletionAfter(), "skip-health-check": skipHealthCheck(),
	}
}

func mode() example {
	return example{claims: map[string]func(s *scene){
		"The ConfigMap is not created, and is not in status.resources; the set is ApplySucceeded.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.Expect(s.managed()).To(BeEmpty())
			s.Expect(s.LiveConfigMap("passed-on")).To(BeNil())
		},
		"Write ignore: the ConfigMap is managed.": func(s *scene) {
			s.change("mode: Ignore", "mode: ignore")
			s.Expect(s.managed()).To(Equal([]string{"ConfigMap/passed-on"}))
			s.Expect(s.LiveConfigMap("passed-on")).NotTo(BeNil())
		},
		"Write Ignore again: it is released. It is not changed, except that origin and description are removed, and it is not repaired any " +
			"more.": func(s *scene) {
			uid := s.uid(configMap, "passed-on")
			s.change()
			s.Expect(s.managed()).To(BeEmpty())
			live := s.LiveConfigMap("passed-on")
			s.Expect(string(live.UID)).To(Equal(uid))
			s.Expect(live.Annotations).To(Equal(map[string]string{"resources.gardener.cloud/mode": "ignore"}))
			s.Edit("passed-on", `{"data":{"text":"by hand"}}`)
			s.Fence()
			s.awaitValue("passed-on", "text", "by hand")
		},
		"Delete the set: the ConfigMap stays.": func(s *scene) {
			s.remove()
			s.Expect(s.LiveConfigMap("passed-on")).NotTo(BeNil())
		},
	}}
}

func ignoredObject() example {
	return example{claims: map[string]func(s *scene){
		"The ConfigMap is created just as it is written: without managed-by, origin and description.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			live := s.LiveConfigMap("template")
			s.Expect(live.Labels).To(BeEmpty())
			s.Expect(live.Annotations).To(Equal(map[string]string{"resources.gardener.cloud/ignore": "true"}))
			s.Expect(live.Data).To(Equal(map[string]string{"text": "edit me"}))
		},
		"Change it by hand, or change its manifest: it stays as it is in the target.": func(s *scene) {
			s.Edit("template", `{"data":{"text":"by hand"}}`)
			s.Fence()
			s.awaitValue("template", "text", "by hand")
			s.change("text: edit me", "text: edit this")
			s.awaitValue("template", "text", "by hand")
		},
		"Delete it: it is created again.": func(s *scene) {
			s.Remove(configMap, "template")
			s.awaitValue("template", "text", "edit this")
		},
		"Delete the set: it is deleted.": func(s *scene) {
			s.remove()
			s.Expect(s.LiveConfigMap("template")).To(BeNil())
		},
		"Write yes: it is managed as any other.": func(s *scene) {
			s.apply(`ignore: "true"`, `ignore: "yes"`)
			s.awaitApplied(applied)
			s.Expect(s.LiveConfigMap("template").Annotations).To(HaveKey("resources.gardener.cloud/origin"))
			s.Edit("template", `{"data":{"text":"by hand"}}`)
			s.awaitValue("template", "text", "edit me")
		},
	}}
}

func keepObject() example {
	const document = "    apiVersion: v1\n    kind: ConfigMap\n    metadata:\n      name: treasure\n      namespace: shop\n" +
		"      annotations:\n" +
		"        resources.gardener.cloud/keep-object: \"true\"\n    ---\n"
	return example{claims: map[string]func(s *scene){
		"Take the document with its annotation out of the Secret: the ConfigMap stays.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.change(document, "")
			s.Expect(s.managed()).To(Equal([]string{"ConfigMap/trinket"}))
			s.Expect(s.LiveConfigMap("treasure")).NotTo(BeNil())
		},
		"Delete the set: treasure stays, trinket is deleted.": func(s *scene) {
			s.change()
			s.remove()
			s.Expect(s.LiveConfigMap("trinket")).To(BeNil())
			s.Expect(s.LiveConfigMap("treasure")).NotTo(BeNil())
		},
		"Write true without quotes: ApplyFailed, and the live ConfigMap is not changed.": func(s *scene) {
			version := s.LiveConfigMap("treasure").ResourceVersion
			s.apply(`keep-object: "true"`, "keep-object: true")
			s.awaitApplied(applyFailed)
			s.Expect(s.message()).To(ContainSubstring("metadata.annotations"))
			s.Expect(s.LiveConfigMap("treasure").ResourceVersion).To(Equal(version))
		},
		"Write yes, and delete the set: both are deleted.": func(s *scene) {
			s.apply(`keep-object: "true"`, `keep-object: "yes"`)
			s.awaitApplied(applied)
			s.remove()
			s.Expect(s.LiveConfigMap("trinket")).To(BeNil())
			s.Expect(s.LiveConfigMap("treasure")).To(BeNil())
		},
	}}
}

func finalizeDeletionAfter() example {
	return example{claims: map[string]func(s *scene){
		"Delete the set: the ConfigMap is being deleted, the set is DeletionPending and names it.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.Delete(s.set)
			s.soon(s.message).Should(ContainSubstring(`deletion of old resource "v1/ConfigMap/` + s.Namespace + `/lingering" is still pending`))
			s.awaitApplied(pending)
			s.Expect(s.LiveConfigMap("lingering").DeletionTimestamp).NotTo(BeNil())
		},
		"When the time is over: the finalizers are removed, the ConfigMap and the set are gone.": func(s *scene) {
			// A shorter period, so that the test does not wait for an hour.
			s.Edit("lingering", `{"metadata":{"annotations":{"resources.gardener.cloud/finalize-deletion-after":"1s"}}}`)
			s.AwaitGone(s.set)
			s.Expect(s.LiveConfigMap("lingering")).To(BeNil())
		},
		"Write soon, and delete the set: DeletionPending says that this is no duration.": func(s *scene) {
			s.apply("finalize-deletion-after: 1h", "finalize-deletion-after: soon")
			s.awaitApplied(applied)
			s.Delete(s.set)
			s.soon(s.message).Should(ContainSubstring(`failed parsing duration of resources.gardener.cloud/finalize-deletion-after annotation: ` +
				`time: invalid duration "soon"`))
			s.awaitApplied(pending)
			s.Edit("lingering", `{"metadata":{"finalizers":null}}`)
			s.AwaitGone(s.set)
		},
	}}
}

func skipHealthCheck() example {
	return example{claims: map[string]func(s *scene){
		"While the Service has no load balancer: the set is healthy all the same.": func(s *scene) {
			s.apply()
			s.Expect(Condition(s.awaitApplied(applied), "ResourcesHealthy")).To(Equal("True/ResourcesHealthy"))
		},
		"Write True: ResourcesHealthy is False with the reason ServiceUnhealthy.": func(s *scene) {
			s.apply(`skip-health-check: "true"`, `skip-health-check: "True"`)
			s.AwaitCondition(s.set, "ResourcesHealthy", "False/ServiceUnhealthy")
		},
	}}
}
