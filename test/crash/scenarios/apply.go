package scenarios

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/crash/harness"
)

// firstApplies are scenarios in which sets are created.
var firstApplies = []harness.Scenario{
	firstApply("first apply", false),
	firstApply("first apply, two clusters", true),
	// Creates a kind and an object of that kind.
	{
		Name:    "first apply of a definition and an object of its kind",
		Prepare: func(e *managedresourcetest.Env) { e.Grant("*", "things") },
		Act: created(nil, manifest("$NS.crash.test/v1", "Thing", "thing", "spec: {a: 1}"), configMap("one", "1"),
			`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.$NS.crash.test, annotations: {api-approved.kubernetes.io: "unapproved, for tests only"}}
spec:
  group: $NS.crash.test
  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`),
	},
	// Creates a namespace with objects in it, and another cluster-scoped object.
	{
		Name: "first apply of a namespace and objects in it",
		Act: created(nil,
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: $NS-inner}\ndata: {key: \"1\"}",
			"apiVersion: v1\nkind: Secret\nmetadata: {name: two, namespace: $NS-inner}\nstringData: {key: \"1\"}",
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: $NS-inner}",
			"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: $NS-high}\nvalue: 1000"),
	},
}

// firstApply creates a new set with objects of several kinds, one of which exists already.
func firstApply(name string, two bool) harness.Scenario {
	return harness.Scenario{
		Name: name, TwoClusters: two, Workloads: true,
		Begin: func(w *harness.World) {
			w.Create(configMap("bystander", "1", "labels: {resources.gardener.cloud/managed-by: gardener}"))
			w.Create(configMap("adopted", "foreign", "labels: {own: label}"))
		},
		Act: created(nil, deployment("web", "web", "1"), service("web", 80), configMap("one", "1"), configMap("adopted", "ours"),
			secret("token", "1"), serviceAccount("web"), role("web", "configmaps"),
			configMap("once", "1", `annotations: {resources.gardener.cloud/ignore: "true"}`)),
		Stays: []string{"ConfigMap/bystander", "ConfigMap/adopted"},
	}
}

// updates are scenarios in which the contents or the settings of sets change.
var updates = []harness.Scenario{
	update("update that prunes", false),
	update("update that prunes, two clusters", true),
	// Changes the settings of a set that apply to all its objects.
	{
		Name: "update of injected labels", Workloads: true,
		First: created(func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Spec.InjectLabels = map[string]string{"old": "1", "both": "1"}
		}, configMap("one", "1"), configMap("two", "1"), deployment("web", "web", "1")),
		Act: changed(func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Spec.InjectLabels = map[string]string{"new": "1", "both": "2"}
		}),
		Stays: []string{"ConfigMap/one", "ConfigMap/two", "Deployment/web"},
	},
	// Lets a set reference another Secret, as programs do whose Secrets are immutable.
	{
		Name:  "update by another Secret",
		First: created(nil, configMap("one", "1"), configMap("old", "1")),
		Act: do(func(w *harness.World) {
			w.Secret("set-2", configMap("one", "2"), configMap("new", "1"))
			w.Change("set", func(mr *resourcesv1alpha1.ManagedResource) {
				mr.Spec.SecretRefs = []corev1.LocalObjectReference{{Name: "set-2"}}
			})
		}),
		Stays: []string{"ConfigMap/one"},
		Goes:  []string{"ConfigMap/old"},
	},
	suspension(),
	// Changes and then deletes a set that acts as a ServiceAccount.
	{
		Name:    "update and deletion as a ServiceAccount",
		Prepare: (*managedresourcetest.Env).AllowImpersonation,
		Configure: func(cfg *config.ResourceManagerConfiguration) {
			cfg.Espalier.ManagedResource.Accounts = &config.EspalierAccounts{Lockdown: new(true), Default: "cook"}
		},
		Begin: func(w *harness.World) {
			w.Create(serviceAccount("cook"))
			w.Create(manifest("rbac.authorization.k8s.io/v1", "RoleBinding", "cook",
				`subjects: [{kind: ServiceAccount, name: cook, namespace: $NS}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}`))
		},
		First: created(nil, configMap("changed", "1"), configMap("pruned", "1"), secret("token", "1")),
		Act:   slices.Concat(updated(configMap("changed", "2"), configMap("new", "1"), secret("token", "2")), deleted()),
		Stays: []string{"ServiceAccount/cook"},
		Goes:  []string{"ConfigMap/changed", "ConfigMap/pruned", "Secret/token"},
	},
	// Changes a set while another set on which it depends has failed, and then repairs the other one.
	{
		Name: "update of a set that depends on another one",
		First: do(func(w *harness.World) {
			w.Set("first", nil, configMap("first", "1"))
			w.Set("second", func(mr *resourcesv1alpha1.ManagedResource) {
				mr.Annotations = map[string]string{resourcesv1alpha1.DependsOn: "first"}
			}, configMap("second", "1"), configMap("gone", "1"))
		}),
		Act: []harness.Step{
			{
				Do: func(w *harness.World) {
					w.Secret("first", configMap("first", "2"), manifest("v1", "ConfigMap", "Not_A_Name", ""))
				},
				Until: func(w *harness.World) bool { return w.Says("first", "ResourcesApplied", "False/ApplyFailed", "") },
			},
			{
				Do: func(w *harness.World) { w.Secret("second", configMap("second", "2")) },
				Until: func(w *harness.World) bool {
					return w.Says("second", "ResourcesApplied", "Progressing/DependenciesPending", "")
				},
			},
			{Do: func(w *harness.World) { w.Secret("first", configMap("first", "3")) }},
		},
		Stays: []string{"ConfigMap/first", "ConfigMap/second"},
		Goes:  []string{"ConfigMap/gone"},
	},
	// Changes the content of a set that only applies approved content, and approves the change.
	{
		Name: "content that must be approved, and its approval",
		First: created(func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Annotations = map[string]string{resourcesv1alpha1.Drift: resourcesv1alpha1.DriftReport}
		}, configMap("one", "1"), configMap("two", "1")),
		Act: []harness.Step{
			{Do: approve},
			{
				Do:    func(w *harness.World) { w.Secret("set", configMap("one", "2"), configMap("three", "1")) },
				Until: func(w *harness.World) bool { return w.Live(configMapKind, "set-plan") != nil },
			},
			{Do: approve, Until: func(w *harness.World) bool { return w.Applied() && w.Live(configMapKind, "set-plan") == nil }},
			{Do: func(w *harness.World) { // it differs from run to run
				w.Change("set", func(mr *resourcesv1alpha1.ManagedResource) { delete(mr.Annotations, resourcesv1alpha1.Approved) })
			}},
		},
		Stays: []string{"ConfigMap/one"},
		Goes:  []string{"ConfigMap/two"},
	},
	severalSets(),
	// Changes a set again while no controller runs: objects that only the version in between had must be deleted.
	{
		Name:  "update, and another one while no controller runs",
		First: created(nil, configMap("one", "1", "labels: {first: label}"), configMap("first", "1")),
		Act:   updated(configMap("one", "2", "labels: {second: label}"), configMap("second", "1"), serviceAccount("second")),
		Meanwhile: &harness.Step{Do: func(w *harness.World) {
			w.Secret("set", configMap("one", "3", "labels: {third: label}"), configMap("third", "1"))
		}},
		Stays: []string{"ConfigMap/one"},
		Goes:  []string{"ConfigMap/first"},
	},
	updateTakenBack(),
	// Deletes a set that is being updated while no controller runs.
	{
		Name:      "update, and deletion while no controller runs",
		First:     created(nil, configMap("one", "1", "labels: {first: label}"), configMap("first", "1")),
		Act:       updated(configMap("one", "2", "labels: {second: label}"), configMap("second", "1"), serviceAccount("second")),
		Meanwhile: &harness.Step{Do: func(w *harness.World) { w.DeleteSet("set") }},
		Goes:      []string{"ConfigMap/one", "ConfigMap/first"},
	},
	// Makes a document invalid and then removes it from the set.
	{
		Name:  "a document that cannot be read, and its removal",
		First: created(nil, configMap("one", "1"), configMap("two", "1")),
		Act: []harness.Step{
			{
				Do:    func(w *harness.World) { w.Secret("set", configMap("one", "2"), "just a text") },
				Until: func(w *harness.World) bool { return w.Says("set", "ResourcesApplied", "False/DecodingFailed", "") },
			},
			{Do: func(w *harness.World) { w.Secret("set", configMap("one", "2"), configMap("three", "1")) }},
		},
		Stays: []string{"ConfigMap/one"},
		Goes:  []string{"ConfigMap/two"},
	},
}

// update changes a set in every way: objects are changed, unchanged, added, removed, or removed but kept, and labels are removed.
func update(name string, two bool) harness.Scenario {
	return harness.Scenario{
		Name: name, TwoClusters: two,
		Begin: func(w *harness.World) {
			w.Create(configMap("bystander", "1", "annotations: {resources.gardener.cloud/origin: $NS/set}",
				"labels: {resources.gardener.cloud/managed-by: gardener}"))
		},
		First: created(nil, configMap("changed", "1", "labels: {a: b, c: d}"), configMap("same", "1"), configMap("pruned", "1"),
			secret("pruned", "1"),
			configMap("kept", "1", `annotations: {resources.gardener.cloud/keep-object: "true"}`), role("changed", "configmaps")),
		Act: updated(configMap("changed", "2", "labels: {a: e}"), configMap("same", "1"), configMap("new", "1"), serviceAccount("new"),
			role("changed", "secrets")),
		Stays: []string{"ConfigMap/bystander", "ConfigMap/changed", "ConfigMap/same", "ConfigMap/kept", "Role/changed"},
		Goes:  []string{"ConfigMap/pruned", "Secret/pruned"},
		Kept:  []string{"ConfigMap/kept", "ConfigMap/bystander"},
	}
}

// severalSets changes three sets at the same time. A controller that does one thing at a time processes them one after the other, a
// concurrent one all at once.
func severalSets() harness.Scenario {
	names := []string{"first", "second", "third"}
	return harness.Scenario{
		Name: "update of several sets",
		First: do(func(w *harness.World) {
			for _, name := range names {
				w.Set(name, nil, configMap(name+"-changed", "1"), configMap(name+"-pruned", "1"), secret(name+"-token", "1"))
			}
		}),
		Act: do(func(w *harness.World) {
			for _, name := range names {
				w.Secret(name, configMap(name+"-changed", "2"), configMap(name+"-new", "1"), secret(name+"-token", "2"))
			}
		}),
		Stays: []string{"ConfigMap/first-changed", "Secret/second-token"},
		Goes:  []string{"ConfigMap/first-pruned", "ConfigMap/third-pruned"},
	}
}

// approve approves the present content of the set "set".
func approve(w *harness.World) {
	w.Change("set", func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Annotations[resourcesv1alpha1.Approved] = w.Checksum("set")
	})
}

// suspension changes a set so that its pruning is suspended, changes it again, and confirms the deletion.
func suspension() harness.Scenario {
	suspended := func(w *harness.World) bool { return w.Says("set", "ResourcesApplied", "False/PruningSuspended", "") }
	return harness.Scenario{
		Name: "suspended pruning, and its confirmation",
		Configure: func(cfg *config.ResourceManagerConfiguration) {
			cfg.Espalier.ManagedResource.DeletionLimit = &config.EspalierDeletionLimit{
				ProtectedKinds: &[]string{}, Objects: new(1), Percent: new(50), NamespacesAndDefinitions: new(0),
			}
		},
		First: created(nil, configMap("one", "1"), configMap("two", "1"), configMap("three", "1")),
		Act: []harness.Step{
			{
				Do: func(w *harness.World) {
					w.Secret("set", configMap("three", "2"), configMap("four", "1"), configMap("five", "1"))
				},
				Until: suspended,
			},
			{
				Do: func(w *harness.World) {
					w.Secret("set", configMap("two", "2"), configMap("three", "3"), configMap("four", "1"), configMap("five", "1"))
				},
			},
			{
				Do:    func(w *harness.World) { w.Secret("set", configMap("three", "4")) },
				Until: suspended,
			},
			{
				Do: func(w *harness.World) {
					w.Change("set", func(mr *resourcesv1alpha1.ManagedResource) {
						_, rest, _ := strings.Cut(managedresourcetest.Message(mr, "ResourcesApplied"), resourcesv1alpha1.ConfirmDeletion+`: "`)
						value, _, _ := strings.Cut(rest, `"`)
						mr.Annotations = map[string]string{resourcesv1alpha1.ConfirmDeletion: value}
					})
				},
				Until: func(w *harness.World) bool { return w.SetApplied("set") && w.Live(configMapKind, "two") == nil },
			},
		},
		Stays: []string{"ConfigMap/three"},
		Goes:  []string{"ConfigMap/one", "ConfigMap/two"},
	}
}

// updateTakenBack restores the previous content of a set while no controller runs. The status then says that exactly this content was
// applied.
func updateTakenBack() harness.Scenario {
	former := []string{configMap("one", "1"), configMap("two", "1"), secret("three", "1")}
	return harness.Scenario{
		Name:  "update that leaves the references, and the former content while no controller runs",
		First: created(nil, former...),
		Act: do(func(w *harness.World) {
			w.AwaitNextSecond() // times in managedFields are whole seconds
			w.Secret("set", manifest("v1", "ConfigMap", "one", "data: {key: \"2\", more: \"2\"}"), configMap("two", "2"), secret("three", "2"))
		}),
		Meanwhile: &harness.Step{Do: func(w *harness.World) { w.Secret("set", former...) }},
		Stays:     []string{"ConfigMap/one", "ConfigMap/two", "Secret/three"},
	}
}

const (
	formerGroup, nextGroup = "former.crash.test", "next.crash.test"
	mayGo                  = `annotations: {resources.gardener.cloud/delete-on-invalid-update: "true"}`
)

// replacements are scenarios in which the API server refuses a change of an object as an update.
var replacements = []harness.Scenario{
	// Changes the kind of an object to another kind that the set declares as equivalent. The object of the former kind must not change,
	// because real equivalent kinds are two views of one object.
	{
		Name: "rename across an equivalence of the set",
		Prepare: func(e *managedresourcetest.Env) {
			e.Define(formerGroup, "v1", "Gadget")
			e.Define(nextGroup, "v1", "Widget")
		},
		First: created(func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Spec.Equivalences = [][]metav1.GroupKind{{{Group: formerGroup, Kind: "Gadget"}, {Group: nextGroup, Kind: "Widget"}}}
		}, manifest(formerGroup+"/v1", "Gadget", "renamed", "spec: {a: 1}"),
			manifest(formerGroup+"/v1", "Gadget", "pruned", "spec: {a: 1}")),
		Act:   updated(manifest(nextGroup+"/v1", "Widget", "renamed", "spec: {a: 2}")),
		Stays: []string{"Gadget/renamed"},
		Goes:  []string{"Gadget/pruned"},
		Kept:  []string{"Gadget/renamed"},
	},
	// Lists a Deployment in the status with the API group "extensions", as old releases did.
	{
		Name: "rename from extensions to apps", Workloads: true,
		First: created(nil, deployment("web", "web", "1", "labels: {a: b}"), configMap("one", "1")),
		Down: func(w *harness.World) {
			w.ChangeStatus("set", func(status *resourcesv1alpha1.ManagedResourceStatus) {
				for i := range status.Resources {
					if status.Resources[i].Kind == "Deployment" {
						status.Resources[i].APIVersion = "extensions/v1beta1"
					}
				}
			})
			w.Secret("set", deployment("web", "web", "2"), configMap("one", "2"))
		},
		Act:   []harness.Step{{}},
		Stays: []string{"Deployment/web", "ConfigMap/one"},
	},
	// Changes fields that cannot be changed: ConfigMap and Secret are deleted and created again.
	{
		Name:  "immutable objects are recreated",
		First: created(nil, immutable("1")...),
		Act:   updated(immutable("2")...),
		Stays: []string{"ConfigMap/one"},
		Goes:  []string{"ConfigMap/fixed", "Secret/fixed"},
	},
	// Changes the selector of a Deployment whose annotation allows to delete it for that.
	{
		Name: "an invalid update deletes and recreates", Workloads: true,
		First: created(nil, deployment("web", "web", "1", mayGo), deployment("api", "api", "1", mayGo)),
		Act:   updated(deployment("web", "shop", "1", mayGo), deployment("api", "api", "2", mayGo)),
		Stays: []string{"Deployment/api"},
		Goes:  []string{"Deployment/web"},
	},
}

// immutable returns the manifests of two immutable objects and of a mutable one, all with the given value.
func immutable(value string) []string {
	return []string{
		manifest("v1", "ConfigMap", "fixed", "immutable: true\ndata: {key: \""+value+"\"}"),
		manifest("v1", "Secret", "fixed", "immutable: true\nstringData: {key: \""+value+"\"}"),
		configMap("one", value),
	}
}

// drifts are scenarios in which another client changes and deletes objects of sets.
var drifts = []harness.Scenario{
	// Changes and deletes objects, one after the other.
	{
		Name:  "repair of drift",
		First: created(nil, configMap("one", "1"), configMap("two", "1")),
		Act: []harness.Step{
			{
				Do:    func(w *harness.World) { w.Patch(configMapKind, "one", `{"data":{"key":"foreign"}}`) },
				Until: func(w *harness.World) bool { return datum(w, "one") == "1" },
			},
			{
				Do:    func(w *harness.World) { w.Delete(configMapKind, "two") },
				Until: func(w *harness.World) bool { return datum(w, "two") == "1" },
			},
		},
		Stays: []string{"ConfigMap/one"},
		Goes:  []string{"ConfigMap/two"},
	},
	// Changes, takes over and deletes objects while no controller runs.
	{
		Name:  "repair of drift from while no controller ran",
		First: created(nil, configMap("changed", "1"), configMap("same", "1"), configMap("deleted", "1"), configMap("stripped", "1")),
		Down: func(w *harness.World) {
			w.Patch(configMapKind, "changed", `{"data":{"key":"foreign"}}`)
			w.Patch(configMapKind, "stripped", `{"metadata":{"labels":{"resources.gardener.cloud/managed-by":null}}}`)
			w.Delete(configMapKind, "deleted")
		},
		Act: []harness.Step{{Until: func(w *harness.World) bool {
			stripped := w.Live(configMapKind, "stripped")
			return datum(w, "changed") == "1" && datum(w, "deleted") == "1" && stripped != nil && len(stripped.GetLabels()) > 0
		}}},
		Stays: []string{"ConfigMap/changed", "ConfigMap/same", "ConfigMap/stripped"},
	},
}

// datum returns the value in a ConfigMap, "" if it does not exist.
func datum(w *harness.World, name string) string {
	live := w.Live(configMapKind, name)
	if live == nil {
		return ""
	}
	text, _ := managedresourcetest.Field(live, "data", "key").(string)
	return text
}
