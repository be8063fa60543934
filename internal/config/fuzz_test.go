package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// loaded is a pointer to a configuration.
type loaded interface {
	comparable
	Validate() field.ErrorList
}

// roundTrip describes how a fuzz target loads one kind of file and compares the results.
type roundTrip[C loaded] struct {
	load func([]byte) (C, []Warning, error)
	// same compares two configurations. The first was read from the input and then written to a file, and the second was read from that file.
	same func(first, second C) bool
	// mayComeAgain reports whether a written configuration may cause this warning when it is read.
	mayComeAgain func(Warning) bool
}

// check loads a file. Loading must not crash, and the loaded configuration can be written and loaded again without a change or a warning.
func (r roundTrip[C]) check(t *testing.T, file []byte) {
	t.Helper()
	var none C
	c, found, err := r.load(file)
	if err != nil {
		if c != none || found != nil {
			t.Fatalf("an error came with a result: %v, %v", c, found)
		}
		return
	}
	_ = c.Validate()
	written, err := yaml.Marshal(c)
	if err != nil {
		t.Fatalf("write what was loaded: %v", err)
	}
	again, found, err := r.load(written)
	if err != nil {
		t.Fatalf("load what was written: %v\n%s", err, written)
	}
	for _, warning := range found {
		if !r.mayComeAgain(warning) {
			t.Fatalf("load what was written: %v\n%s", warning, written)
		}
	}
	if !r.same(c, again) {
		t.Fatalf("what was written is read differently:\n%s", cmp.Diff(c, again, cmpopts.EquateEmpty()))
	}
}

func never(Warning) bool { return false }

// FuzzResourceManager checks the file of a resource manager. The corpus is in testdata/fuzz.
func FuzzResourceManager(f *testing.F) {
	same := func(first, second *ResourceManagerConfiguration) bool {
		return cmp.Equal(first, second, cmpopts.EquateEmpty())
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		roundTrip[*ResourceManagerConfiguration]{load: ResourceManager, same: same, mayComeAgain: never}.check(t, file)
	})
}

// FuzzControllerManager checks the file of a controller-manager.
func FuzzControllerManager(f *testing.F) {
	f.Add([]byte(gardenHeader + everythingOfGarden))
	f.Add([]byte(gardenHeader + "server: {http: {port: 1}, https: {port: 2, tls: {serverCertPath: a, serverKeyPath: b}}}"))
	f.Add([]byte(gardenHeader + "controllers: {shoot: 1, project: {quotas: [{config: {apiVersion: v1, kind: ConfigMap}}, {config: 7}, 8]}}"))
	f.Add([]byte(gardenHeader + "espalier: {project: {staleDeletion: , webhooks: []}}\nserver: {https: 3}"))
	same := func(first, second *ControllerManagerConfiguration) bool {
		return equality.Semantic.DeepEqual(first, second)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		roundTrip[*ControllerManagerConfiguration]{load: ControllerManager, same: same, mayComeAgain: never}.check(t, file)
	})
}

// FuzzOperator checks the file of garden-operator. Warnings about settings without effect come again.
func FuzzOperator(f *testing.F) {
	f.Add([]byte(everythingOfOperator))
	f.Add([]byte(minimalOperator + "featureGates: {HVPA: true, Trees: , x: 1}\nserver: {webhooks: 3}"))
	f.Add([]byte(minimalOperator + "espalier: {garden: {webhooks: {selfManaged: {}}}}\nserver: {webhooks: {tls: {serverCertDir: a}}}"))
	same := func(first, second *OperatorConfiguration) bool { return equality.Semantic.DeepEqual(first, second) }
	withoutEffect := func(w Warning) bool { return !w.Mistake }
	f.Fuzz(func(t *testing.T, file []byte) {
		roundTrip[*OperatorConfiguration]{load: Operator, same: same, mayComeAgain: withoutEffect}.check(t, file)
	})
}

// FuzzGardenlet checks the file of extension-controller.
func FuzzGardenlet(f *testing.F) {
	f.Add([]byte(everythingOfGardenlet))
	f.Add([]byte(gardenletHeader + "seedConfig: {metadata: {name: a, labels: {b: c}}, spec: 7}\ncontrollers: {shoot: 1, seed: }"))
	f.Add([]byte(gardenletHeader + "espalier: {extension: {chartPolicy: {signatureKeys: }}}\ngardenClientConnection: {kubeconfigSecret: 3}"))
	same := func(first, second *GardenletConfiguration) bool { return equality.Semantic.DeepEqual(first, second) }
	f.Fuzz(func(t *testing.T, file []byte) {
		roundTrip[*GardenletConfiguration]{load: Gardenlet, same: same, mayComeAgain: never}.check(t, file)
	})
}
