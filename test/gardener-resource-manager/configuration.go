package main

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/config"
)

// tokenClass is the only class of Secrets for which Gardener's resource manager requests tokens, whatever its configuration. In the
// namespace of a Shoot there are also Secrets of class garden, which gardenlet serves.
const tokenClass = "shoot"

// configuration is the configuration file of Gardener's resource manager.
type configuration struct {
	*config.ResourceManagerConfiguration
	// file is the content of the file. The children get a changed copy of it, and not of the decoded configuration, because an empty list in
	// the file, which may be a restriction, is lost when the decoded configuration is encoded again.
	file map[string]any
}

// load decodes a file. Its warnings name the enabled sections that no child serves.
func load(data []byte) (*configuration, []config.Warning, error) {
	decoded, warnings, err := config.ResourceManager(data)
	if err != nil {
		return nil, nil, err
	}
	c := &configuration{ResourceManagerConfiguration: decoded}
	if err := yaml.Unmarshal(data, &c.file); err != nil {
		return nil, nil, fmt.Errorf("parse YAML: %w", err)
	}
	return c, explain(c.file, warnings), nil
}

// Process returns the configuration of this process, which needs no connection to the target, and has a metrics server of its own.
func (c *configuration) Process() config.Process {
	p := c.ResourceManagerConfiguration.Process()
	p.Target, p.Server.Metrics = nil, nil
	return p
}

// forChild returns the file for a child that serves probes and metrics on ports of the loopback interface. The child needs no lease,
// because this process holds it.
func (c *configuration) forChild(probesPort, metricsPort int64) ([]byte, error) {
	file := runtime.DeepCopyJSON(c.file)
	for _, each := range sectionsNotServed() {
		unstructured.RemoveNestedField(file, each.fields...)
	}
	objectAt(file, "leaderElection")["leaderElect"] = false
	server := objectAt(file, "server")
	server["healthProbes"] = map[string]any{"bindAddress": loopback, "port": probesPort}
	server["metrics"] = map[string]any{"bindAddress": loopback, "port": metricsPort}
	if token := objectAt(objectAt(file, "espalier"), "token"); token["class"] == nil {
		token["class"] = tokenClass
	}
	return json.Marshal(file)
}

// objectAt returns the object in a field, and creates it if there is none.
func objectAt(file map[string]any, field string) map[string]any {
	object, isObject := file[field].(map[string]any)
	if !isObject {
		object = map[string]any{}
		file[field] = object
	}
	return object
}
