package scenarios

import (
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/test/crash/harness"
)

// deletion deletes a set. One of its objects must be kept, another one belongs to another client by now.
func deletion(name string, two bool) harness.Scenario {
	objects := []string{
		configMap("one", "1"), secret("token", "1"), serviceAccount("web"), role("web", "configmaps"),
		configMap("kept", "1", `annotations: {resources.gardener.cloud/keep-object: "true"}`),
	}
	if !two { // its deletion needs a controller of the cluster
		objects = append(objects, deployment("web", "web", "1"))
	}
	return harness.Scenario{
		Name: name, TwoClusters: two, Workloads: true,
		Begin: func(w *harness.World) { w.Create(configMap("bystander", "1")) },
		First: []harness.Step{{Do: func(w *harness.World) {
			w.Set("set", nil, objects...)
			w.Set("other", nil, configMap("others", "1"))
		}}},
		Act:   deleted(),
		Stays: []string{"ConfigMap/kept", "ConfigMap/bystander", "ConfigMap/others"},
		Goes:  []string{"ConfigMap/one", "Secret/token", "ServiceAccount/web", "Role/web"},
		Kept:  []string{"ConfigMap/kept"},
	}
}

// claims deletes a set with a StatefulSet whose PersistentVolumeClaims must be deleted too.
func claims() harness.Scenario {
	const claimKind = "v1/PersistentVolumeClaim"
	return harness.Scenario{
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
	}
}

const hold = "finalizers: [example.com/hold]"

// letGo replaces the controller that has set a finalizer on an object: it removes it after the set has
// reported that the deletion is pending.
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

// heldDeletion deletes a set in which a finalizer of another controller delays the deletion of an object.
func heldDeletion() harness.Scenario {
	return harness.Scenario{
		Name:    "deletion with a foreign finalizer",
		First:   created(nil, configMap("held", "1", hold), configMap("one", "1"), serviceAccount("web")),
		Act:     deleted(),
		Foreign: letGo("held"),
		Goes:    []string{"ConfigMap/held", "ConfigMap/one", "ServiceAccount/web"},
	}
}

// heldPruning removes such an object from a set that also gets a new one.
func heldPruning() harness.Scenario {
	return harness.Scenario{
		Name:    "update that prunes with a foreign finalizer",
		First:   created(nil, configMap("held", "1", hold), configMap("one", "1")),
		Act:     updated(configMap("one", "2"), configMap("new", "1")),
		Foreign: letGo("held"),
		Stays:   []string{"ConfigMap/one"},
		Goes:    []string{"ConfigMap/held"},
	}
}

// finalizedDeletion deletes a set in which an object is finalized by force.
func finalizedDeletion() harness.Scenario {
	return harness.Scenario{
		Name: "deletion with finalize-deletion-after", Waits: true,
		First: created(nil, configMap("stuck", "1", hold, "annotations: {resources.gardener.cloud/finalize-deletion-after: 3s}"),
			configMap("one", "1")),
		Act:  deleted(),
		Goes: []string{"ConfigMap/stuck", "ConfigMap/one"},
	}
}

// keptObjects deletes a set whose objects are kept.
func keptObjects() harness.Scenario {
	return harness.Scenario{
		Name: "deletion that keeps the objects", Workloads: true,
		First: created(func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.KeepObjects = ptr.To(true) }, configMap("one", "1"),
			deployment("web", "web", "1")),
		Act:   deleted(),
		Stays: []string{"ConfigMap/one", "Deployment/web"},
		Kept:  []string{"ConfigMap/one", "Deployment/web"},
	}
}
