package scenarios

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/test/crash/harness"
)

// handOvers are scenarios in which a set moves to the controller of another class, or an object to another set.
var handOvers = []harness.Scenario{
	handOver("class hand-over, the giver is cut off", false, 0),
	handOver("class hand-over, the taker is cut off", false, 1),
	handOver("class hand-over, two clusters", true, 0),
	// Moves a set whose objects are kept.
	{
		Name: "class hand-over that keeps the objects", Classes: classes,
		First: created(func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.KeepObjects = ptr.To(true) }, configMap("one", "1"),
			secret("token", "1")),
		Act:   changed(toOther),
		Stays: []string{"ConfigMap/one", "Secret/token"},
	},
}

var classes = []string{"resources", "other"}

func toOther(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = ptr.To("other") }

// handOver moves a set from the controller of one class to the controller of another: the first one deletes the objects, the second
// one creates them again.
func handOver(name string, two bool, victim int) harness.Scenario {
	return harness.Scenario{
		Name: name, TwoClusters: two, Classes: classes, Victim: victim,
		Begin: func(w *harness.World) { w.Create(configMap("bystander", "1")) },
		First: created(nil, configMap("one", "1"), secret("token", "1"),
			configMap("kept", "1", `annotations: {resources.gardener.cloud/keep-object: "true"}`)),
		Act:   changed(toOther),
		Stays: []string{"ConfigMap/bystander", "ConfigMap/kept"},
		Goes:  []string{"ConfigMap/one", "Secret/token"},
	}
}

const claimKind = "v1/PersistentVolumeClaim"

// deletions are scenarios in which sets are deleted, or objects with a finalizer of another controller.
var deletions = []harness.Scenario{
	deletion("deletion", false),
	deletion("deletion, two clusters", true),
	// Deletes a set with a StatefulSet whose PersistentVolumeClaims must be deleted too.
	{
		Name: "deletion with PersistentVolumeClaims", Workloads: true,
		Begin: func(w *harness.World) {
			w.Create(claim("data-db-0", "db"))
			w.Create(claim("data-db-1", "db"))
			w.Create(claim("data-other-0", "other"))
		},
		First: created(func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.DeletePersistentVolumeClaims = ptr.To(true) },
			statefulSet("db"), service("db", 5432), configMap("one", "1")),
		Act: []harness.Step{{
			Do: func(w *harness.World) { w.DeleteSet("set") },
			Until: func(w *harness.World) bool {
				return w.Applied() && w.Live(claimKind, "data-db-0") == nil && w.Live(claimKind, "data-db-1") == nil
			},
		}},
		Stays: []string{"PersistentVolumeClaim/data-other-0"},
		Goes:  []string{"StatefulSet/db", "Service/db", "ConfigMap/one", "PersistentVolumeClaim/data-db-0", "PersistentVolumeClaim/data-db-1"},
	},
	// Deletes a set in which a finalizer of another controller delays the deletion of an object.
	{
		Name:    "deletion with a foreign finalizer",
		First:   created(nil, configMap("held", "1", hold), configMap("one", "1"), serviceAccount("web")),
		Act:     deleted(),
		Foreign: letGo("held"),
		Goes:    []string{"ConfigMap/held", "ConfigMap/one", "ServiceAccount/web"},
	},
	// Removes an object with a finalizer of another controller from a set that also gets a new object.
	{
		Name:    "update that prunes with a foreign finalizer",
		First:   created(nil, configMap("held", "1", hold), configMap("one", "1")),
		Act:     updated(configMap("one", "2"), configMap("new", "1")),
		Foreign: letGo("held"),
		Stays:   []string{"ConfigMap/one"},
		Goes:    []string{"ConfigMap/held"},
	},
	// Deletes a set in which an object is finalized by force.
	{
		Name: "deletion with finalize-deletion-after", Waits: true,
		First: created(nil, configMap("stuck", "1", hold, "annotations: {resources.gardener.cloud/finalize-deletion-after: 3s}"),
			configMap("one", "1")),
		Act:  deleted(),
		Goes: []string{"ConfigMap/stuck", "ConfigMap/one"},
	},
	// Deletes a set whose objects are kept.
	{
		Name: "deletion that keeps the objects", Workloads: true,
		First: created(func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.KeepObjects = ptr.To(true) }, configMap("one", "1"),
			deployment("web", "web", "1")),
		Act:   deleted(),
		Stays: []string{"ConfigMap/one", "Deployment/web"},
		Kept:  []string{"ConfigMap/one", "Deployment/web"},
	},
}

// deletion deletes a set. One of its objects must be kept. Another one has been taken over by another client.
func deletion(name string, two bool) harness.Scenario {
	objects := []string{
		configMap("one", "1"), secret("token", "1"), serviceAccount("web"), role("web", "configmaps"),
		configMap("kept", "1", `annotations: {resources.gardener.cloud/keep-object: "true"}`),
	}
	if !two { // its deletion needs a controller of Kubernetes
		objects = append(objects, deployment("web", "web", "1"))
	}
	return harness.Scenario{
		Name: name, TwoClusters: two, Workloads: true,
		Begin: func(w *harness.World) { w.Create(configMap("bystander", "1")) },
		First: do(func(w *harness.World) {
			w.Set("set", nil, objects...)
			w.Set("other", nil, configMap("others", "1"))
		}),
		Act:   deleted(),
		Stays: []string{"ConfigMap/kept", "ConfigMap/bystander", "ConfigMap/others"},
		Goes:  []string{"ConfigMap/one", "Secret/token", "ServiceAccount/web", "Role/web"},
		Kept:  []string{"ConfigMap/kept"},
	}
}

const hold = "finalizers: [example.com/hold]"

// letGo does the work of the other controller, whose finalizer an object has: it removes the finalizer after the set has reported that the
// deletion is pending.
func letGo(name string) func(*harness.World) {
	return func(w *harness.World) {
		if !w.Says("set", "ResourcesApplied", "Progressing/DeletionPending", "ConfigMap/$NS/"+name+`" is still pending`) {
			return
		}
		if live := w.Live(configMapKind, name); live != nil && live.GetDeletionTimestamp() != nil && len(live.GetFinalizers()) > 0 {
			w.Patch(configMapKind, name, `{"metadata":{"finalizers":null}}`)
		}
	}
}

// ignored are scenarios with sets that the controller ignores.
var ignored = []harness.Scenario{
	// Makes the controller ignore a set; later changes of its objects are not repaired.
	{
		Name:  "a set comes to be ignored",
		First: created(nil, configMap("one", "1"), configMap("two", "1")),
		Act: []harness.Step{
			beginToIgnore,
			{
				Do: func(w *harness.World) {
					w.Patch(configMapKind, "one", `{"data":{"key":"foreign"}}`)
					w.Secret("set", configMap("one", "2"))
				},
				Until: isIgnored,
			},
		},
		Stays: []string{"ConfigMap/one", "ConfigMap/two"},
	},
	// Makes the controller no longer ignore a set: changed objects are repaired, and objects that the set no longer contains are deleted.
	{
		Name:  "a set is no longer ignored",
		First: append(created(nil, configMap("one", "1"), configMap("two", "1"), configMap("three", "1")), beginToIgnore),
		Act: do(func(w *harness.World) {
			w.Patch(configMapKind, "one", `{"data":{"key":"foreign"}}`)
			w.Secret("set", configMap("one", "1"), configMap("two", "2"))
			w.Change("set", func(mr *resourcesv1alpha1.ManagedResource) { mr.Annotations = nil })
		}),
		Stays: []string{"ConfigMap/one", "ConfigMap/two"},
		Goes:  []string{"ConfigMap/three"},
	},
}

// beginToIgnore makes the controller ignore the set "set".
var beginToIgnore = harness.Step{
	Do: func(w *harness.World) {
		w.Change("set", func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Annotations = map[string]string{"resources.gardener.cloud/ignore": "true"}
		})
	},
	Until: isIgnored,
}

func isIgnored(w *harness.World) bool {
	return w.Says("set", "ResourcesApplied", "True/ManagedResourceIgnored", "")
}

// releases are scenarios in which objects leave their sets and are not deleted.
var releases = []harness.Scenario{
	// Releases an object by mode Ignore, and then deletes the set.
	{
		Name:  "release by mode Ignore, and deletion of the set",
		First: created(nil, configMap("one", "1"), configMap("released", "1"), configMap("pruned", "1")),
		Act: slices.Concat(updated(configMap("one", "2"),
			configMap("released", "2", "annotations:", "  resources.gardener.cloud/mode: Ignore")), deleted()),
		Stays: []string{"ConfigMap/released"},
		Goes:  []string{"ConfigMap/one", "ConfigMap/pruned"},
	},
	objectHandedOver("an object goes from set to set by mode Ignore", true),
	objectHandedOver("an object goes from set to set", false),
}

// objectHandedOver lets a second set take over an object, which the first set then releases: by mode Ignore, or by no longer containing it.
func objectHandedOver(name string, byMode bool) harness.Scenario {
	rest := []string{configMap("of-first", "1")}
	if byMode {
		rest = append(rest, configMap("shared", "1", "annotations:", "  resources.gardener.cloud/mode: Ignore"))
	}
	return harness.Scenario{
		Name: name,
		First: do(func(w *harness.World) {
			w.Set("first", nil, configMap("of-first", "1"), configMap("shared", "1"))
			w.Set("second", nil, configMap("of-second", "1"))
		}),
		Act: []harness.Step{
			{
				Do: func(w *harness.World) { w.Secret("second", configMap("of-second", "1"), configMap("shared", "2")) },
				Until: func(w *harness.World) bool {
					return w.SetApplied("second") && w.Says("first", "ResourcesApplied", "False/ApplyFailed", "held by")
				},
			},
			{Do: func(w *harness.World) { w.Secret("first", rest...) }},
		},
		Stays: []string{"ConfigMap/shared", "ConfigMap/of-first", "ConfigMap/of-second"},
	}
}

const collectable = `labels: {resources.gardener.cloud/garbage-collectable-reference: "true"}`

// collections are scenarios in which the garbage collector deletes objects that belong to no set.
var collections = []harness.Scenario{
	// Runs the garbage collector once, at the start of a controller whose clock makes all objects old enough, even if a fault sets it
	// back by two hours. It is restricted to the scenario's namespace.
	{
		Name: "garbage collection", Workloads: true, Ahead: 3 * time.Hour,
		Configure: func(cfg *config.ResourceManagerConfiguration) {
			target := cfg.SourceClientConnection
			cfg.TargetClientConnection = &target
			cfg.Controllers.GarbageCollector = config.GarbageCollectorController{Enabled: true, SyncPeriod: &metav1.Duration{Duration: time.Hour}}
		},
		First: []harness.Step{{Do: func(w *harness.World) {
			w.Set("set", nil, configMap("in-set", "1", collectable), deployment("web", "web", "1",
				"annotations:", "  reference.resources.gardener.cloud/configmap-e5d3a3ac: used",
				"  reference.resources.gardener.cloud/secret-8b2d5b8f: used"))
		}}, {Do: func(w *harness.World) { // only after an object references them, because the first collector runs too
			w.Create(configMap("used", "1", collectable))
			w.Create(manifest("v1", "Secret", "used", "stringData: {key: \"1\"}", collectable))
			w.Create(configMap("unlabelled", "1"))
		}}},
		Down: func(w *harness.World) {
			w.Create(configMap("unused-1", "1", collectable))
			w.Create(configMap("unused-2", "1", collectable))
			w.Create(manifest("v1", "Secret", "unused", "stringData: {key: \"1\"}", collectable))
			w.Patch(configMapKind, "in-set", `{"data":{"key":"foreign"}}`)
		},
		Act: []harness.Step{{Until: func(w *harness.World) bool {
			return w.Applied() && datum(w, "in-set") == "1" && w.Live(configMapKind, "unused-1") == nil &&
				w.Live(configMapKind, "unused-2") == nil && w.Live("v1/Secret", "unused") == nil
		}}},
		Stays: []string{"ConfigMap/in-set", "ConfigMap/used", "Secret/used", "ConfigMap/unlabelled", "Deployment/web"},
	},
}
