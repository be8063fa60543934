package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"
)

// FuzzResourceManager checks that no file crashes the loader, and that a loaded configuration can be written and loaded again without a
// change or a warning. The corpus is in testdata/fuzz.
func FuzzResourceManager(f *testing.F) {
	f.Fuzz(func(t *testing.T, file []byte) {
		c, found, err := ResourceManager(file)
		if err != nil {
			if c != nil || found != nil {
				t.Fatalf("an error came with a result: %v, %v", c, found)
			}
			return
		}
		_ = c.Validate()
		written, err := yaml.Marshal(c)
		if err != nil {
			t.Fatalf("write what was loaded: %v", err)
		}
		again, found, err := ResourceManager(written)
		if err != nil || len(found) > 0 {
			t.Fatalf("load what was written: %v, %v\n%s", err, found, written)
		}
		if diff := cmp.Diff(c, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("what was written is read differently:\n%s", diff)
		}
	})
}

// FuzzControllerManager checks the same for the file of a controller-manager.
func FuzzControllerManager(f *testing.F) {
	f.Add([]byte(gardenHeader + everythingOfGarden))
	f.Add([]byte(gardenHeader + "server: {http: {port: 1}, https: {port: 2, tls: {serverCertPath: a, serverKeyPath: b}}}"))
	f.Add([]byte(gardenHeader + "controllers: {shoot: 1, project: {quotas: [{config: {apiVersion: v1, kind: ConfigMap}}, {config: 7}, 8]}}"))
	f.Add([]byte(gardenHeader + "espalier: {project: {staleDeletion: , webhooks: []}}\nserver: {https: 3}"))
	f.Fuzz(func(t *testing.T, file []byte) {
		c, found, err := ControllerManager(file)
		if err != nil {
			if c != nil || found != nil {
				t.Fatalf("an error came with a result: %v, %v", c, found)
			}
			return
		}
		_ = c.Validate()
		written, err := yaml.Marshal(c)
		if err != nil {
			t.Fatalf("write what was loaded: %v", err)
		}
		again, found, err := ControllerManager(written)
		if err != nil || len(found) > 0 {
			t.Fatalf("load what was written: %v, %v\n%s", err, found, written)
		}
		if !equality.Semantic.DeepEqual(c, again) {
			t.Fatalf("what was written is read differently:\n%s", cmp.Diff(c, again, cmpopts.EquateEmpty()))
		}
	})
}
