package scenarios

import (
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/test/crash/harness"
)

func classes() []string { return []string{"resources", "other"} }

func toOther(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = ptr.To("other") }

// handOver moves a set from the controller of one class to that of another: the first one deletes the objects, the second one creates them
// again.
func handOver(name string, two bool, victim int) harness.Scenario {
	return harness.Scenario{
		Name: name, TwoClusters: two, Classes: classes(), Victim: victim,
		Begin: func(w *harness.World) { w.Create(configMap("bystander", "1")) },
		First: created(nil, configMap("one", "1"), secret("token", "1"),
			configMap("kept", "1", `annotations: {resources.gardener.cloud/keep-object: "true"}`)),
		Act:   changed(toOther),
		Stays: []string{"ConfigMap/bystander", "ConfigMap/kept"},
		Goes:  []string{"ConfigMap/one", "Secret/token"},
	}
}

// handOverKept does the same with a set whose objects are kept.
func handOverKept() harness.Scenario {
	return harness.Scenario{
		Name: "class hand-over that keeps the objects", Classes: classes(),
		First: created(func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.KeepObjects = ptr.To(true) }, configMap("one", "1"),
			secret("token", "1")),
		Act:   changed(toOther),
		Stays: []string{"ConfigMap/one", "Secret/token"},
	}
}

// objectHandedOver lets a second set take over an object, which the first set then releases: by mode Ignore, or by no longer containing it.
func objectHandedOver(name string, byMode bool) harness.Scenario {
	rest := []string{configMap("of-first", "1")}
	if byMode {
		rest = append(rest, configMap("shared", "1", "annotations:", "  resources.gardener.cloud/mode: Ignore"))
	}
	return harness.Scenario{
		Name: name,
		First: []harness.Step{{Do: func(w *harness.World) {
			w.Set("first", nil, configMap("of-first", "1"), configMap("shared", "1"))
			w.Set("second", nil, configMap("of-second", "1"))
		}}},
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

// released releases an object by mode Ignore, and then deletes the set.
func released() harness.Scenario {
	return harness.Scenario{
		Name:  "release by mode Ignore, and deletion of the set",
		First: created(nil, configMap("one", "1"), configMap("released", "1"), configMap("pruned", "1")),
		Act: []harness.Step{
			{Do: func(w *harness.World) {
				w.Secret("set", configMap("one", "2"), configMap("released", "2", "annotations:", "  resources.gardener.cloud/mode: Ignore"))
			}},
			{Do: func(w *harness.World) { w.DeleteSet("set") }},
		},
		Stays: []string{"ConfigMap/released"},
		Goes:  []string{"ConfigMap/one", "ConfigMap/pruned"},
	}
}

func ignore(mr *resourcesv1alpha1.ManagedResource) {
	mr.Annotations = map[string]string{"resources.gardener.cloud/ignore": "true"}
}

func isIgnored(w *harness.World) bool {
	return w.Says("set", "ResourcesApplied", "True/ManagedResourceIgnored", "")
}

// ignoreOn makes the controller ignore a set; later changes of its objects are not repaired.
func ignoreOn() harness.Scenario {
	return harness.Scenario{
		Name:  "a set comes to be ignored",
		First: created(nil, configMap("one", "1"), configMap("two", "1")),
		Act: []harness.Step{
			{Do: func(w *harness.World) { w.Change("set", ignore) }, Until: isIgnored},
			{
				Do: func(w *harness.World) {
					w.Patch(configMapKind, "one", `{"data":{"key":"foreign"}}`)
					w.Secret("set", configMap("one", "2"))
				},
				Until: isIgnored,
			},
		},
		Stays: []string{"ConfigMap/one", "ConfigMap/two"},
	}
}

// ignoreOff ends that: changed objects are repaired, and objects that the set no longer contains are deleted.
func ignoreOff() harness.Scenario {
	return harness.Scenario{
		Name: "a set is no longer ignored",
		First: []harness.Step{
			{Do: func(w *harness.World) {
				w.Set("set", nil, configMap("one", "1"), configMap("two", "1"), configMap("three", "1"))
			}},
			{Do: func(w *harness.World) { w.Change("set", ignore) }, Until: isIgnored},
		},
		Act: []harness.Step{{Do: func(w *harness.World) {
			w.Patch(configMapKind, "one", `{"data":{"key":"foreign"}}`)
			w.Secret("set", configMap("one", "1"), configMap("two", "2"))
			w.Change("set", func(mr *resourcesv1alpha1.ManagedResource) { mr.Annotations = nil })
		}}},
		Stays: []string{"ConfigMap/one", "ConfigMap/two"},
		Goes:  []string{"ConfigMap/three"},
	}
}
