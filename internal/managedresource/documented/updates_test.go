package documented_test

import (
	"slices"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// updateExamples are the examples for annotations that control the writes to an object.
func updateExamples() map[string]example {
	return map[string]example{
		"delete-on-invalid-update": deleteOnInvalidUpdate(), "deletion-propagation-on-invalid-update": deletionPropagation(),
		"delete-untested": deleteUntested(), "keep-fields": keepFields(),
		"preserve-replicas": preserveReplicas(), "preserve-resources": preserveResources(),
	}
}

func deleteOnInvalidUpdate() example {
	const binding = "rbac.authorization.k8s.io/v1/RoleBinding"
	role := func(s *scene) any { return Field(s.Live(binding, "cashiers"), "roleRef", "name") }
	return example{claims: map[string]func(s *scene){
		"Change roleRef, which cannot be updated: the RoleBinding is deleted and created anew.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			uid := s.uid(binding, "cashiers")
			s.change("name: view", "name: edit")
			s.Expect(role(s)).To(Equal("edit"))
			s.Expect(s.uid(binding, "cashiers")).NotTo(Equal(uid))
		},
		"Change the subjects, which can: it is updated.": func(s *scene) {
			uid := s.uid(binding, "cashiers")
			s.change("name: view", "name: edit", "Group, name: cashiers", "Group, name: tellers")
			s.Expect(Field(s.Live(binding, "cashiers"), "subjects")).To(HaveExactElements(HaveKeyWithValue("name", "tellers")))
			s.Expect(s.uid(binding, "cashiers")).To(Equal(uid))
		},
		"Change the data of the immutable ConfigMap: it is replaced without any annotation.": func(s *scene) {
			uid := s.uid(configMap, "tariff")
			s.change("name: view", "name: edit", `apples: "3"`, `apples: "5"`)
			s.awaitValue("tariff", "apples", "5")
			s.Expect(s.uid(configMap, "tariff")).NotTo(Equal(uid))
		},
		"Write yes, and change roleRef: ApplyFailed, and it stays as it is.": func(s *scene) {
			uid := s.uid(binding, "cashiers")
			s.apply("name: view", "name: admin", `update: "true"`, `update: "yes"`)
			s.awaitApplied(applyFailed)
			s.Expect(s.message()).To(ContainSubstring("roleRef: Invalid value"))
			s.Fence()
			s.Expect(s.uid(binding, "cashiers")).To(Equal(uid))
			s.Expect(role(s)).To(Equal("edit"))
		},
	}}
}

func deleteUntested() example {
	const pod = "v1/Pod"
	return example{claims: map[string]func(s *scene){
		"Write yes, and replace the Pod by printer-2 with the ServiceAccount clerk, which does not exist: ApplyFailed names both Pods, and " +
			"printer-1 stays.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			uid := s.uid(pod, "printer-1")
			s.apply("name: printer-1", "name: printer-2", "serviceAccountName: printer", "serviceAccountName: clerk",
				`untested: "true"`, `untested: "yes"`)
			s.awaitApplied(applyFailed)
			s.Expect(s.message()).To(And(ContainSubstring("printer-1"), ContainSubstring("printer-2"),
				ContainSubstring("espalier.dev/delete-untested")))
			s.Fence()
			s.Expect(s.uid(pod, "printer-1")).To(Equal(uid))
		},
		"Write true again: printer-1 is deleted. printer-2 is created when another program has created clerk.": func(s *scene) {
			s.apply("name: printer-1", "name: printer-2", "serviceAccountName: printer", "serviceAccountName: clerk")
			s.AwaitAbsent(pod, "printer-1")
			s.Create("{apiVersion: v1, kind: ServiceAccount, metadata: {name: clerk, namespace: " + s.Namespace + "}}")
			s.annotate(`{"gardener.cloud/operation":"reconcile"}`)
			s.awaitApplied(applied)
			s.Expect(s.uid(pod, "printer-2")).NotTo(BeEmpty())
		},
	}}
}

func deletionPropagation() example {
	const selector, another = "matchLabels: {app: web}", "matchLabels: {tier: front}"
	replicaSets := func(s *scene) []appsv1.ReplicaSet {
		list := &appsv1.ReplicaSetList{}
		s.Expect(s.Target.List(s.Ctx, list, client.InNamespace(s.Namespace))).To(Succeed())
		return list.Items
	}
	return example{oneCluster: true, claims: map[string]func(s *scene){
		"Change the selector to tier: front: the Deployment is replaced; its ReplicaSet and Pods stay, and the new " +
			"Deployment adopts them.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.soon(func() []appsv1.ReplicaSet { return replicaSets(s) }).Should(HaveLen(1))
			before, uid := replicaSets(s)[0], s.uid(deployment, "web")
			s.change(selector, another)
			s.awaitAnother(deployment, "web", uid)
			s.soon(func() bool {
				return slices.ContainsFunc(replicaSets(s), func(each appsv1.ReplicaSet) bool {
					return each.UID == before.UID && len(each.OwnerReferences) == 1 && string(each.OwnerReferences[0].UID) == s.uid(deployment, "web")
				})
			}).Should(BeTrue())
		},
		"Write Never, and change the selector back: ApplyFailed says what is allowed.": func(s *scene) {
			uid := s.uid(deployment, "web")
			s.apply("update: Orphan", "update: Never")
			s.awaitApplied(applyFailed)
			s.Expect(s.message()).To(ContainSubstring(`has value "Never", allowed are Background, Foreground and Orphan`))
			s.Expect(s.uid(deployment, "web")).To(Equal(uid))
		},
	}}
}

func keepFields() example {
	expect := func(s *scene, version, colour string) {
		s.Await(configMap, "trust", func(g Gomega, live *unstructured.Unstructured) {
			g.Expect(Field(live, "data")).To(Equal(map[string]any{"version": version, "ca.crt": "x", "colour": colour}))
		})
	}
	return example{claims: map[string]func(s *scene){
		"The ConfigMap is created with version 1.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.Expect(Field(s.Live(configMap, "trust"), "data", "version")).To(Equal("1"))
		},
		"Let another program set version, ca.crt and colour: only the colour is restored.": func(s *scene) {
			s.Patch(configMap, "trust", `{"data":{"version":"2","ca.crt":"x","colour":"blue"}}`)
			expect(s, "2", "red")
		},
		"Change the colour and the version in the manifest: only the colour changes.": func(s *scene) {
			s.change("colour: red", "colour: green", `version: "1"`, `version: "3"`)
			expect(s, "2", "green")
		},
		"Write metadata.name: ApplyFailed says what is allowed.": func(s *scene) {
			s.apply("data.version, ", "metadata.name, ")
			s.awaitApplied(applyFailed)
			s.Expect(s.message()).To(ContainSubstring("only fields outside of apiVersion, kind, metadata and status can be kept"))
		},
	}}
}

func preserveReplicas() example {
	image := func(live *unstructured.Unstructured) any {
		containers, _ := Field(live, "spec", "template", "spec", "containers").([]any)
		container, _ := containers[0].(map[string]any)
		return container["image"]
	}
	return example{claims: map[string]func(s *scene){
		"The Deployment is created with 2 replicas.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.Expect(Field(s.Live(deployment, "elastic"), "spec", "replicas")).To(BeEquivalentTo(2))
		},
		"Scale it to 5 by hand, and change the image in the manifest: it has the new image and 5 replicas.": func(s *scene) {
			s.Patch(deployment, "elastic", `{"spec":{"replicas":5}}`)
			s.change("elastic:1", "elastic:2")
			live := s.Live(deployment, "elastic")
			s.Expect(image(live)).To(Equal("registry.example.com/elastic:2"))
			s.Expect(Field(live, "spec", "replicas")).To(BeEquivalentTo(5))
		},
		"Write True: it has 2 again.": func(s *scene) {
			s.change(`replicas: "true"`, `replicas: "True"`)
			s.Expect(Field(s.Live(deployment, "elastic"), "spec", "replicas")).To(BeEquivalentTo(2))
		},
	}}
}

func preserveResources() example {
	requests := func(live *unstructured.Unstructured) any {
		containers, _ := Field(live, "spec", "template", "spec", "containers").([]any)
		container, _ := containers[0].(map[string]any)
		return Field(&unstructured.Unstructured{Object: container}, "resources", "requests")
	}
	return example{claims: map[string]func(s *scene){
		"Change all three requests by hand: CPU and memory stay, the ephemeral storage goes back to 1Gi.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.Patch(deployment, "hungry", `{"spec":{"template":{"spec":{"containers":[{"name":"hungry","image":"registry.example.com/hungry:1",
				"resources":{"requests":{"cpu":"200m","memory":"128Mi","ephemeral-storage":"2Gi"}}}]}}}}`)
			s.Await(deployment, "hungry", func(g Gomega, live *unstructured.Unstructured) {
				g.Expect(requests(live)).To(Equal(map[string]any{"cpu": "200m", "memory": "128Mi", "ephemeral-storage": "1Gi"}))
			})
		},
		"Write 1: CPU and memory go back too.": func(s *scene) {
			s.change(`resources: "true"`, `resources: "1"`)
			s.Expect(requests(s.Live(deployment, "hungry"))).To(Equal(map[string]any{"cpu": "100m", "memory": "64Mi", "ephemeral-storage": "1Gi"}))
		},
	}}
}
