package scenarios

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/test/crash/harness"
)

const collectable = `labels: {resources.gardener.cloud/garbage-collectable-reference: "true"}`

// garbage runs the garbage collector once, at the start of a controller whose clock makes all objects old enough, even if a fault sets it
// back by two hours. It is restricted to the scenario's namespace.
func garbage() harness.Scenario {
	return harness.Scenario{
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
	}
}
