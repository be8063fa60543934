package prometheus

import (
	"bytes"
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/deploy"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Rules returns the alerts that Espalier ships in deploy/observability.
func Rules(v values.Values) ([]client.Object, error) {
	files, err := fs.Glob(deploy.Files, "observability/*.prometheusrule.yaml")
	if err != nil {
		return nil, fmt.Errorf("list files with alerts: %w", err)
	}
	objects := make([]client.Object, 0, len(files))
	for _, each := range files {
		content, err := fs.ReadFile(deploy.Files, each)
		if err != nil {
			return nil, fmt.Errorf("read alerts: %w", err)
		}
		rule := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(bytes.TrimSpace(content), &rule.Object); err != nil {
			return nil, fmt.Errorf("decode alerts: %w", err)
		}
		rule.SetNamespace(v.Namespace)
		objects = append(objects, rule)
	}
	return objects, nil
}
