package documented_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/config"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// fieldExamples are the examples for the fields of the spec.
func fieldExamples() map[string]example {
	return map[string]example{
		"secret-refs": secretRefs(), "class": class(), "inject-labels": injectLabels(), "force-overwrite-labels": forceOverwriteLabels(),
		"force-overwrite-annotations": forceOverwriteAnnotations(), "keep-objects": keepObjects(), "equivalences": equivalences(),
		"delete-persistent-volume-claims": deletePersistentVolumeClaims(),
	}
}

func secretRefs() example {
	const both = "- name: prices\n  - name: offers"
	return example{claims: map[string]func(s *scene){
		"The ConfigMap is as the last Secret says: apples are 2. Exchange the two names: they are 3.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.awaitValue("prices", "apples", "2")
			s.apply(both, "- name: offers\n  - name: prices")
			s.awaitValue("prices", "apples", "3")
		},
		"Name a Secret that does not exist: CannotReadSecret. Nothing is applied, nothing deleted, until it is " +
			"there or its name gone.": func(s *scene) {
			const missing = "- name: prices\n  - name: demand"
			s.apply(both, missing)
			s.awaitApplied("False/CannotReadSecret")
			s.apply(both, missing, `apples: "3"`, `apples: "4"`)
			s.Fence()
			s.awaitValue("prices", "apples", "3")
			s.Secret("demand", s.here("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: demand, namespace: shop}"))
			s.awaitApplied(applied)
			s.awaitValue("prices", "apples", "4")
			s.DeleteSecret("demand")
			s.awaitApplied("False/CannotReadSecret")
			s.apply(both, "- name: offers")
			s.awaitApplied(applied)
			s.awaitValue("prices", "apples", "2")
		},
		"Empty the list: the set's objects are deleted, and it is ApplySucceeded.": func(s *scene) {
			s.apply("secretRefs:\n  "+both, "secretRefs: []")
			s.awaitApplied(applied)
			s.Expect(s.LiveConfigMap("prices")).To(BeNil())
		},
	}}
}

func class() example {
	const ofDefault, ofSeed = "resources.gardener.cloud/gardener-resource-manager", "resources.gardener.cloud/gardener-resource-manager-seed"
	return example{claims: map[string]func(s *scene){
		"A controller of another class does not touch the set: no conditions, no finalizer, no objects.": func(s *scene) {
			s.apply()
			s.Fence()
			mr := s.Get("class")
			s.Expect(mr.Status.Conditions).To(BeEmpty())
			s.Expect(mr.Finalizers).To(BeEmpty())
			s.Expect(s.LiveConfigMap("classified")).To(BeNil())
		},
		"The controller with controllers.resourceClass: seed applies it; its finalizer is " +
			"resources.gardener.cloud/gardener-resource-manager-seed.": func(s *scene) {
			s.StartAnother(func(cfg *config.ResourceManagerConfiguration) { cfg.Controllers.ResourceClass = ptr.To("seed") })
			s.Expect(s.awaitApplied(applied).Finalizers).To(Equal([]string{ofSeed}))
			s.Expect(s.LiveConfigMap("classified")).NotTo(BeNil())
		},
		"Take class away: that controller deletes the objects, and the one of the default class creates them anew.": func(s *scene) {
			uid := s.uid(configMap, "classified")
			s.apply("  class: seed\n", "")
			s.awaitAnother(configMap, "classified", uid)
			s.Expect(s.awaitApplied(applied).Finalizers).To(Equal([]string{ofDefault}))
		},
		"Set keepObjects: true before you change the class: the objects are handed over alive.": func(s *scene) {
			uid := s.uid(configMap, "classified")
			s.apply("class: seed", "keepObjects: true")
			s.awaitApplied(applied)
			s.apply("class: seed", "class: seed\n  keepObjects: true")
			s.Expect(s.awaitApplied(applied).Finalizers).To(Equal([]string{ofSeed}))
			s.Expect(s.uid(configMap, "classified")).To(Equal(uid))
		},
	}}
}

func injectLabels() example {
	both := map[string]string{"team": "checkout", "resources.gardener.cloud/managed-by": "gardener"}
	return example{claims: map[string]func(s *scene){
		"The StatefulSet, its pod template and its claim template have the label; the selector does not.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			live := s.Live(statefulSet, "till")
			s.Expect(labels(live)).To(Equal(both))
			s.Expect(labels(live, "spec", "template")).To(Equal(map[string]string{
				"app": "till", "team": "checkout",
				"resources.gardener.cloud/managed-by": "gardener",
			}))
			claims, _ := Field(live, "spec", "volumeClaimTemplates").([]any)
			s.Expect(claims).To(HaveLen(1))
			claim, _ := claims[0].(map[string]any)
			s.Expect(labels(&unstructured.Unstructured{Object: claim})).To(Equal(both))
			s.Expect(Field(live, "spec", "selector")).To(Equal(map[string]any{"matchLabels": map[string]any{"app": "till"}}))
		},
		"resources.gardener.cloud/managed-by cannot be set this way: the configured value wins.": func(s *scene) {
			s.apply("team: checkout", "team: checkout\n    resources.gardener.cloud/managed-by: me")
			s.awaitApplied(applied)
			s.Expect(labels(s.Live(statefulSet, "till"))).To(Equal(both))
		},
		"A value such as a b: ApplyFailed.": func(s *scene) {
			s.apply("team: checkout", "team: a b")
			s.awaitApplied(applyFailed)
		},
	}}
}

func forceOverwriteLabels() example {
	const patch = `{"metadata":{"labels":{"example.com/mine":"here"}}}`
	return example{claims: map[string]func(s *scene){
		"Add a label to the live ConfigMap: it is removed. The manifest's and the controller's own stay.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.Edit("labelled", patch)
			s.soon(func() map[string]string { return s.LiveConfigMap("labelled").Labels }).Should(Equal(map[string]string{
				"team": "checkout", "resources.gardener.cloud/managed-by": "gardener",
			}))
		},
		"With false: it stays.": func(s *scene) {
			s.apply("forceOverwriteLabels: true", "forceOverwriteLabels: false")
			s.awaitApplied(applied)
			s.Edit("labelled", patch)
			s.Fence()
			s.Expect(s.LiveConfigMap("labelled").Labels).To(HaveKeyWithValue("example.com/mine", "here"))
		},
	}}
}

func forceOverwriteAnnotations() example {
	const patch = `{"metadata":{"annotations":{"example.com/mine":"here"}}}`
	return example{claims: map[string]func(s *scene){
		"Annotate the live ConfigMap: the annotation is removed. The manifest's and the controller's own stay.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.Edit("annotated", patch)
			s.soon(func() map[string]string { return s.LiveConfigMap("annotated").Annotations }).Should(And(
				HaveLen(3), HaveKeyWithValue("example.com/owner", "checkout"),
				HaveKey("resources.gardener.cloud/origin"), HaveKey("resources.gardener.cloud/description"),
			))
		},
		"So is what you set by hand to be read from the live object: keep-object has to be in the manifest then.": func(s *scene) {
			s.Edit("annotated", `{"metadata":{"annotations":{"resources.gardener.cloud/keep-object":"true"}}}`)
			s.soon(func() map[string]string { return s.LiveConfigMap("annotated").Annotations }).
				ShouldNot(HaveKey("resources.gardener.cloud/keep-object"))
		},
		"With false: it stays.": func(s *scene) {
			s.apply("forceOverwriteAnnotations: true", "forceOverwriteAnnotations: false")
			s.awaitApplied(applied)
			s.Edit("annotated", patch)
			s.Fence()
			s.Expect(s.LiveConfigMap("annotated").Annotations).To(HaveKeyWithValue("example.com/mine", "here"))
		},
	}}
}

func keepObjects() example {
	return example{claims: map[string]func(s *scene){
		"Delete the ManagedResource: it vanishes, the ConfigMaps stay with their label and annotations.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.remove()
			s.Fence()
			for _, name := range []string{"ledger", "inventory"} {
				live := s.LiveConfigMap(name)
				s.Expect(live).NotTo(BeNil())
				s.Expect(live.Labels).To(HaveKey("resources.gardener.cloud/managed-by"))
				s.Expect(live.Annotations).To(HaveKeyWithValue("resources.gardener.cloud/origin", s.Namespace+"/keep-objects"))
			}
		},
		"Create it again: it takes up the same ConfigMaps.": func(s *scene) {
			uid := s.uid(configMap, "ledger")
			s.apply()
			s.awaitApplied(applied)
			s.Expect(s.uid(configMap, "ledger")).To(Equal(uid))
			s.Edit("ledger", `{"data":{"text":"by hand"}}`)
			s.soon(func() map[string]string { return s.LiveConfigMap("ledger").Data }).Should(BeEmpty())
		},
		"Take one document out of the Secret: that ConfigMap is deleted all the same. To keep a single object, see " +
			"[keep-object](#resourcesgardenercloudkeep-object).": func(s *scene) {
			s.change("    ---\n    apiVersion: v1\n    kind: ConfigMap\n    metadata:\n      name: inventory\n      namespace: shop\n", "")
			s.Expect(s.LiveConfigMap("inventory")).To(BeNil())
			s.Expect(s.LiveConfigMap("ledger")).NotTo(BeNil())
		},
	}}
}

func equivalences() example {
	const former, next = "old.widgets.example.com/v1", "new.widgets.example.com/v1"
	define := func(s *scene) {
		s.Define("old.widgets.example.com", "v1", "Widget")
		s.Define("new.widgets.example.com", "v1", "Widget")
	}
	return example{before: define, claims: map[string]func(s *scene){
		"Write apiVersion: new.widgets.example.com/v1 into the manifest: the new Widget is applied, the old one not deleted.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.change("apiVersion: "+former, "apiVersion: "+next)
			s.Expect(s.Live(next+"/Widget", "lever")).NotTo(BeNil())
			s.Expect(s.Live(former+"/Widget", "lever")).NotTo(BeNil())
			s.remove()
		},
		"Add a kind that the API server does not serve: no effect.": func(s *scene) {
			s.apply("new.widgets.example.com, kind: Widget}",
				"new.widgets.example.com, kind: Widget}\n    - {group: none.example.com, kind: Widget}")
			s.awaitApplied(applied)
			s.Expect(s.managed()).To(Equal([]string{"Widget/lever"}))
			s.remove()
			s.Expect(s.Live(former+"/Widget", "lever")).To(BeNil())
		},
		"Without equivalences: the old one is deleted.": func(s *scene) {
			const field = "  equivalences:\n  - - {group: old.widgets.example.com, kind: Widget}\n" +
				"    - {group: new.widgets.example.com, kind: Widget}\n"
			s.apply(field, "")
			s.awaitApplied(applied)
			s.change(field, "", "apiVersion: "+former, "apiVersion: "+next)
			s.Expect(s.Live(next+"/Widget", "lever")).NotTo(BeNil())
			s.Expect(s.Live(former+"/Widget", "lever")).To(BeNil())
		},
	}}
}

func deletePersistentVolumeClaims() example {
	const claim = "v1/PersistentVolumeClaim"
	exists := func(g Gomega, live *unstructured.Unstructured) { g.Expect(live.GetDeletionTimestamp()).To(BeNil()) }
	return example{oneCluster: true, claims: map[string]func(s *scene){
		"With false, delete the ManagedResource: the StatefulSet goes, the claim data-database-0 stays.": func(s *scene) {
			s.apply("deletePersistentVolumeClaims: true", "deletePersistentVolumeClaims: false")
			s.Await(claim, "data-database-0", exists)
			s.awaitApplied(applied)
			s.remove()
			s.Expect(s.Live(statefulSet, "database")).To(BeNil())
			s.Await(claim, "data-database-0", exists)
		},
		"With true: the claim goes too.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.remove()
			s.AwaitAbsent(claim, "data-database-0")
		},
	}}
}

// The API server refuses the values that the tables of the page list as "refused by the API server".
func TestMalformedFieldsAreRefused(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Stopped: true})
	for name, tc := range map[string]struct {
		metadata, spec string
		accepted       bool
	}{
		"nothing wrong":                          {spec: "{secretRefs: []}", accepted: true},
		"no secretRefs":                          {spec: "{class: seed}"},
		"forceOverwriteLabels as text":           {spec: `{secretRefs: [], forceOverwriteLabels: "true"}`},
		"forceOverwriteAnnotations as text":      {spec: `{secretRefs: [], forceOverwriteAnnotations: "yes"}`},
		"keepObjects as text":                    {spec: `{secretRefs: [], keepObjects: "true"}`},
		"deletePersistentVolumeClaims as number": {spec: `{secretRefs: [], deletePersistentVolumeClaims: 1}`},
		"an equivalence without kind":            {spec: `{secretRefs: [], equivalences: [[{group: apps}]]}`},
		"an equivalence without group":           {spec: `{secretRefs: [], equivalences: [[{kind: Widget}]]}`},
		"an annotation without quotes":           {spec: "{secretRefs: []}", metadata: "annotations: {resources.gardener.cloud/ignore: true}, "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			mr := &unstructured.Unstructured{}
			g.Expect(yaml.Unmarshal(fmt.Appendf(nil,
				"apiVersion: resources.gardener.cloud/v1alpha1\nkind: ManagedResource\nmetadata: {%sname: mr, namespace: %s}\nspec: %s\n",
				tc.metadata, e.Namespace, tc.spec), &mr.Object)).To(Succeed())
			err := e.Source.Create(e.Ctx, mr, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
			g.Expect(err == nil).To(Equal(tc.accepted), "%v", err)
		})
	}
}
