package documented_test

import (
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// setExamples are the examples for annotations of ManagedResources.
func setExamples() map[string]example {
	return map[string]example{
		"ignored-set": ignoredSet(), "operation": operation(), "plan": planned(), "plan-values": plannedWithValues(),
		"kstatus": kstatus(), "service-account": serviceAccount(), "confirm-deletion": confirmDeletion(), "approved": approved(),
		"drift": reportedDrift(), "ignore-fields": ignoredFields(), "depends-on": dependency(),
	}
}

func serviceAccount() example {
	configure := func(cfg *config.ResourceManagerConfiguration) {
		cfg.Espalier.ManagedResource.Accounts = &config.EspalierAccounts{Lockdown: ptr.To(true)}
	}
	before := func(s *scene) { s.AllowOwnAccounts() }
	return example{configure: configure, before: before, claims: map[string]func(s *scene){
		"As long as there is no ServiceAccount carpenter: ResourcesApplied is False with the reason ApplyFailed, and nothing is written.": func(
			s *scene,
		) {
			s.apply()
			s.awaitApplied("False/ApplyFailed")
			s.Expect(s.LiveConfigMap("drawer")).To(BeNil())
		},
		"If carpenter may read the Secret and write ConfigMaps, the set is applied.": func(s *scene) {
			s.Account("carpenter")
			s.Reconciled("service-account") // its rights may have come after the first attempt
			s.awaitApplied(applied)
			s.awaitValue("drawer", "content", "pencils")
		},
		"Write shop/carpenter: ApplyFailed, and the ConfigMap stays as it is.": func(s *scene) {
			s.apply("service-account: carpenter", "service-account: shop/carpenter")
			s.awaitApplied("False/ApplyFailed")
			s.awaitValue("drawer", "content", "pencils")
		},
	}}
}

func ignoredSet() example {
	const annotation = "  annotations:\n    resources.gardener.cloud/ignore: \"true\"\n"
	ignored := func(s *scene) {
		for kind, status := range map[string]string{"ResourcesApplied": "True", "ResourcesHealthy": "True", "ResourcesProgressing": "False"} {
			s.AwaitCondition("ignored-set", kind, status+"/ManagedResourceIgnored")
		}
	}
	return example{claims: map[string]func(s *scene){
		"Nothing is applied. All conditions say ManagedResourceIgnored.": func(s *scene) {
			s.apply()
			ignored(s)
			s.Fence()
			s.Expect(s.LiveConfigMap("workbench")).To(BeNil())
		},
		"Write yes instead: the set is applied. Write true without quotes: the API server refuses the set.": func(s *scene) {
			s.apply(`ignore: "true"`, `ignore: "yes"`)
			s.awaitApplied(applied)
			s.awaitValue("workbench", "text", "from the manifest")
			for _, each := range s.objects(`ignore: "true"`, "ignore: true") {
				if each.GetKind() == "ManagedResource" {
					each.SetName("unquoted")
					s.Expect(s.Source.Create(s.Ctx, each)).To(MatchError(apierrors.IsBadRequest, "IsBadRequest"))
				}
			}
		},
		"Write true again, and change the ConfigMap by hand: the change stays. A changed Secret has no effect either.": func(s *scene) {
			s.apply()
			ignored(s)
			s.Edit("workbench", `{"data":{"text":"by hand"}}`)
			s.apply("from the manifest", "from a changed manifest")
			s.Fence()
			s.awaitValue("workbench", "text", "by hand")
		},
		"Take the annotation away: the ConfigMap is as the manifest says.": func(s *scene) {
			s.apply(annotation, "")
			s.awaitValue("workbench", "text", "from the manifest")
		},
		"Delete the set while it is ignored: its objects are deleted all the same.": func(s *scene) {
			s.apply()
			ignored(s)
			s.remove()
			s.Expect(s.LiveConfigMap("workbench")).To(BeNil())
		},
	}}
}

func operation() example {
	const waiting = `{"gardener.cloud/operation":"wait-for-state"}`
	asked := func(s *scene) string { return s.Get("operation").Annotations["gardener.cloud/operation"] }
	return example{claims: map[string]func(s *scene){
		"wait-for-state: nothing is done with the set, it is not even deleted, until the annotation is gone.": func(s *scene) {
			s.apply()
			s.Fence()
			s.Expect(s.Get("operation").Status.Conditions).To(BeEmpty())
			s.Expect(s.LiveConfigMap("machine")).To(BeNil())
			s.annotate(`{"gardener.cloud/operation":null}`)
			s.awaitApplied(applied)
			s.annotate(waiting)
			s.Delete("operation")
			s.Fence()
			s.Expect(s.Get("operation").DeletionTimestamp).NotTo(BeNil())
			s.Expect(s.LiveConfigMap("machine")).NotTo(BeNil())
			s.annotate(`{"gardener.cloud/operation":null}`)
			s.AwaitGone("operation")
		},
		"reconcile: the controller takes the annotation away, and reads every object of the set instead of relying " +
			"on its watches.": func(s *scene) {
			s.apply("wait-for-state", "reconcile")
			s.awaitApplied(applied)
			s.Expect(asked(s)).To(BeEmpty())
			s.Requests.Reset()
			s.annotate(`{"gardener.cloud/operation":"reconcile"}`)
			s.soon(func() string { return asked(s) }).Should(BeEmpty())
			s.soon(s.Requests.Seen).Should(ContainElement("GET /api/v1/namespaces/" + s.Namespace + "/configmaps/machine"))
			s.remove()
		},
		"restore and migrate: the set is reconciled; the annotation stays.": func(s *scene) {
			for _, each := range []string{"restore", "migrate"} {
				s.apply("wait-for-state", each)
				s.awaitApplied(applied)
				s.Expect(s.LiveConfigMap("machine")).NotTo(BeNil())
				s.Fence()
				s.Expect(asked(s)).To(Equal(each))
				s.remove()
			}
		},
		"Anything else, such as refresh: no effect, the annotation stays.": func(s *scene) {
			s.apply("wait-for-state", "refresh")
			s.awaitApplied(applied)
			s.Requests.Reset()
			s.annotate(`{"gardener.cloud/operation":"refresh again"}`)
			s.Fence()
			s.Expect(s.Requests.Seen()).NotTo(ContainElement(HaveSuffix("/configmaps/machine")))
			s.Expect(asked(s)).To(Equal("refresh again"))
		},
	}}
}

func planned() example {
	published := func(s *scene) string {
		found := &corev1.ConfigMap{}
		if err := s.Source.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: "preview-plan"}, found); err != nil {
			return fmt.Sprint(apierrors.ReasonForError(err))
		}
		return found.Data["summary"]
	}
	const one = "1 to create"
	untouched := func(s *scene) {
		s.soon(func() string { return published(s) }).Should(Equal(one))
		s.Fence()
		s.Expect(s.LiveConfigMap("blueprint")).To(BeNil())
		s.Expect(s.Get("preview").Finalizers).To(BeEmpty())
		s.Expect(s.Get("preview").Status.Conditions).To(BeEmpty())
	}
	return example{claims: map[string]func(s *scene){
		"The ConfigMap preview-plan says that one object would be created. Nothing is written to the target; the set gets no finalizer and no " +
			"conditions.": func(s *scene) {
			s.apply()
			untouched(s)
		},
		"Write yes: the same, and an Event says that this is neither true nor false.": func(s *scene) {
			s.apply(`plan: "true"`, `plan: "yes"`)
			s.soon(func() []string { return s.Events("preview") }).Should(ContainElement(HavePrefix("PlanAnnotationMalformed: ")))
			untouched(s)
		},
		"Write false, or take the annotation away: the set is applied, and preview-plan is deleted.": func(s *scene) {
			for _, edits := range [][]string{{`plan: "true"`, `plan: "false"`}, {"  annotations:\n    espalier.dev/plan: \"true\"\n", ""}} {
				s.apply()
				s.soon(func() string { return published(s) }).Should(Equal(one))
				s.apply(edits...)
				s.awaitApplied(applied)
				s.Expect(s.LiveConfigMap("blueprint")).NotTo(BeNil())
				s.soon(func() string { return published(s) }).Should(Equal("NotFound"))
				s.remove()
			}
		},
	}}
}

func plannedWithValues() example {
	shown := func(s *scene) string {
		found := &corev1.ConfigMap{}
		if err := s.Source.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: "compared-plan"}, found); err != nil {
			return fmt.Sprint(apierrors.ReasonForError(err))
		}
		return found.Data["plan.txt"]
	}
	paint := func(s *scene) {
		if s.Live("v1/ConfigMap", "paint") != nil {
			return
		}
		s.Create(s.Fill("{apiVersion: v1, kind: ConfigMap, metadata: {name: paint, namespace: $NS}, data: {colour: red}}"))
	}
	return example{claims: map[string]func(s *scene){
		"If the ConfigMap paint exists with another colour, compared-plan shows both colours.": func(s *scene) {
			paint(s)
			s.apply()
			s.soon(func() string { return shown(s) }).Should(ContainSubstring("  - data.colour: \"red\"\n  + data.colour: \"green\"\n"))
		},
		"Take espalier.dev/plan-values away, or write false or yes: compared-plan says that data.colour would be " +
			"changed, and shows no colour.": func(s *scene) {
			paint(s)
			for _, edits := range [][]string{
				{"    espalier.dev/plan-values: \"true\"\n", ""}, {`plan-values: "true"`, `plan-values: "false"`}, {
					`plan-values: "true"`,
					`plan-values: "yes"`,
				},
			} {
				s.apply(edits...)
				s.soon(func() string { return shown(s) }).Should(
					SatisfyAll(ContainSubstring("  ~ data.colour: changed\n"), Not(ContainSubstring(`"red"`)), Not(ContainSubstring(`"green"`))))
				s.apply()
				s.soon(func() string { return shown(s) }).Should(ContainSubstring(`"green"`))
			}
		},
	}}
}

func kstatus() example {
	const lamp = "lighting.example.com/v1/Lamp"
	status := func(s *scene, ready string) {
		s.PatchStatus(lamp, "counter", `{"status":{"conditions":[{"type":"Ready","status":"`+ready+`","reason":"Bulb","message":"it is dark"}]}}`)
	}
	await := func(s *scene, healthy, progressing string) {
		s.AwaitCondition("kstatus", "ResourcesHealthy", healthy)
		s.AwaitCondition("kstatus", "ResourcesProgressing", progressing)
	}
	dark := func(s *scene) { await(s, "False/LampUnhealthy", "True/LampProgressing") }
	fine := func(s *scene) { await(s, "True/ResourcesHealthy", "False/ResourcesRolledOut") }
	return example{before: func(s *scene) { s.Grant("lighting.example.com", "lamps") }, claims: map[string]func(s *scene){
		"As long as the condition Ready of the Lamp is False: ResourcesHealthy is False with the reason LampUnhealthy, and " +
			"ResourcesProgressing is True.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			status(s, "False")
			dark(s)
			status(s, "True")
			fine(s)
			status(s, "False")
			dark(s)
		},
		"Write false: a Lamp that exists is healthy.": func(s *scene) {
			s.apply(`kstatus: "true"`, `kstatus: "false"`)
			fine(s)
		},
		"Write yes: as configured, by default the same.": func(s *scene) {
			s.apply()
			dark(s)
			s.apply(`kstatus: "true"`, `kstatus: "yes"`)
			fine(s)
			s.remove() // the kind is removed too
		},
	}}
}

func confirmDeletion() example {
	const claim = "v1/PersistentVolumeClaim"
	write := func(s *scene, value string) {
		s.SecretData(s.set, map[string][]byte{"objects.yaml": []byte(value)})
	}
	limit := func(cfg *config.ResourceManagerConfiguration) {
		cfg.Espalier.ManagedResource.DeletionLimit = &config.EspalierDeletionLimit{
			ProtectedKinds: &[]string{"PersistentVolumeClaim"}, Objects: new(10), Percent: new(50), NamespacesAndDefinitions: new(3),
		}
	}
	return example{oneCluster: true, configure: limit, claims: map[string]func(s *scene){
		"Both objects are applied. The annotation does not name a deletion, so it confirms nothing.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.Expect(s.managed()).To(ConsistOf("ConfigMap/settings", "PersistentVolumeClaim/data"))
		},
		"Remove the document of the claim: the claim stays, and ResourcesApplied is False with the reason PruningSuspended.": func(s *scene) {
			write(s, s.ConfigMap("settings", ""))
			s.awaitApplied("False/PruningSuspended")
			s.Expect(s.Live(claim, "data").GetDeletionTimestamp()).To(BeNil())
		},
		"Write the document again: the suspension ends.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
		},
		"Remove both documents, and write the value that the message shows into the annotation: both objects are deleted, and the " +
			"controller removes the annotation.": func(s *scene) {
			write(s, "# nothing")
			s.awaitApplied("False/PruningSuspended")
			_, rest, _ := strings.Cut(s.message(), "espalier.dev/confirm-deletion: \"")
			value, _, found := strings.Cut(rest, "\"")
			s.Expect(found).To(BeTrue(), s.message())
			s.annotate(fmt.Sprintf(`{"espalier.dev/confirm-deletion":%q}`, value))
			s.AwaitAbsent(claim, "data")
			s.AwaitAbsent(configMap, "settings")
			s.soon(func() map[string]string { return s.Get(s.set).Annotations }).ShouldNot(HaveKey("espalier.dev/confirm-deletion"))
		},
	}}
}

func approved() example {
	checksum := func(s *scene) string {
		content := struct{ SecretsDataChecksum string }{}
		s.Await(configMap, "approved-plan", func(g Gomega, live *unstructured.Unstructured) {
			text, _ := Field(live, "data", "plan.json").(string)
			g.Expect(json.Unmarshal([]byte(text), &content)).To(Succeed())
		})
		return content.SecretsDataChecksum
	}
	return example{oneCluster: true, claims: map[string]func(s *scene){
		"The ConfigMap is not created. The plan is in ConfigMap approved-plan, and secretsDataChecksum in its plan.json is " +
			"the checksum.": func(s *scene) {
			s.apply()
			s.Expect(checksum(s)).NotTo(BeEmpty())
			s.Expect(s.LiveConfigMap("settings")).To(BeNil())
		},
		"Write the checksum into the annotation: the ConfigMap is created, and the plan is removed.": func(s *scene) {
			s.annotate(`{"espalier.dev/approved":"` + checksum(s) + `"}`)
			s.awaitValue("settings", "text", "reviewed")
			s.AwaitAbsent(configMap, "approved-plan")
		},
		"Write another text: it stays a plan, and the ConfigMap keeps the approved text.": func(s *scene) {
			former := *s.awaitApplied(applied).Status.SecretsDataChecksum
			s.apply("text: reviewed", "text: unseen", "approved: none", "approved: "+former)
			s.Expect(checksum(s)).NotTo(Equal(former))
			s.Edit("settings", `{"data":{"text":"by hand"}}`)
			s.awaitValue("settings", "text", "reviewed")
		},
	}}
}

func reportedDrift() example {
	return example{claims: map[string]func(s *scene){
		"Change the ConfigMap by hand: the change stays. An Event DriftReported and the message of ResourcesApplied name the ConfigMap and the " +
			"field manager.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.Edit("settings", `{"data":{"text":"by hand"}}`)
			s.soon(s.message).Should(ContainSubstring(s.Namespace + `/settings (changed by "kubectl-edit")`))
			s.soon(func() []string { return s.Events(s.set) }).Should(ContainElement(HavePrefix("DriftReported: v1 ConfigMap")))
			s.awaitValue("settings", "text", "by hand")
		},
		"Write another text into the manifest: it is applied.": func(s *scene) {
			s.apply("from the manifest", "another text")
			s.awaitValue("settings", "text", "another text")
		},
		"Change the ConfigMap by hand, and take the annotation away: the ConfigMap is as the manifest says.": func(s *scene) {
			s.Edit("settings", `{"data":{"text":"by hand"}}`)
			s.soon(s.message).Should(ContainSubstring("settings (changed by"))
			s.annotate(`{"espalier.dev/drift":null}`)
			s.awaitValue("settings", "text", "another text")
		},
	}}
}

func ignoredFields() example {
	return example{claims: map[string]func(s *scene){
		"Change both keys by hand: text is repaired, and size stays.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.Edit("settings", `{"data":{"text":"by hand","size":"by hand"}}`)
			s.awaitValue("settings", "text", "from the manifest")
			s.awaitValue("settings", "size", "by hand")
		},
		"Write - pointers: [data/size] instead: ResourcesApplied is False with the reason ApplyFailed.": func(s *scene) {
			s.apply("[/data/size]", "[data/size]")
			s.awaitApplied(applyFailed)
		},
		"Take the annotation away: size is as the manifest says.": func(s *scene) {
			s.annotate(`{"espalier.dev/ignore-fields":null}`)
			s.awaitValue("settings", "size", "from the manifest")
		},
	}}
}

func dependency() example {
	return example{claims: map[string]func(s *scene){
		"As long as there is no ManagedResource database: the ConfigMap is not created, and ResourcesApplied is Progressing with the reason " +
			"DependenciesPending.": func(s *scene) {
			s.apply()
			s.awaitApplied("Progressing/DependenciesPending")
			s.Fence()
			s.Expect(s.LiveConfigMap("web")).To(BeNil())
		},
		"Create database: when it is applied and healthy, the ConfigMap is created.": func(s *scene) {
			s.Set("database", s.ConfigMap("database", "1"))
			s.awaitApplied(applied)
			s.Expect(s.LiveConfigMap("web")).NotTo(BeNil())
		},
		"Delete database: the ConfigMap stays, and is repaired.": func(s *scene) {
			s.Delete("database")
			s.AwaitGone("database")
			s.Edit("web", `{"data":{"key":"by hand"}}`)
			s.Await(configMap, "web", func(g Gomega, live *unstructured.Unstructured) { g.Expect(Field(live, "data")).To(BeNil()) })
		},
	}}
}
