package prometheus

import (
	"bytes"
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/deploy"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Rules returns the alerts and records that Espalier ships in deploy/observability.
func Rules(v values.Values) ([]client.Object, error) {
	files, err := fs.Glob(deploy.Files, "observability/*.prometheusrule.yaml")
	if err != nil {
		return nil, fmt.Errorf("list files with rules: %w", err)
	}
	objects := make([]client.Object, 0, len(files))
	for _, each := range files {
		rule, err := readRule(v, each)
		if err != nil {
			return nil, err
		}
		objects = append(objects, rule)
	}
	return objects, nil
}

// healthRule returns the rules with which an instance other than garden records whether it works.
func healthRule(v values.Values, instance string) (client.Object, error) {
	rule, err := readRule(v, "observability/health.prometheusrule.yaml")
	if err != nil {
		return nil, err
	}
	labels := rule.GetLabels()
	labels[observability.SelectedBy] = instance
	rule.SetLabels(labels)
	rule.SetName(rule.GetName() + "-" + instance)
	return rule, nil
}

func readRule(v values.Values, file string) (*unstructured.Unstructured, error) {
	content, err := fs.ReadFile(deploy.Files, file)
	if err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	rule := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(bytes.TrimSpace(content), &rule.Object); err != nil {
		return nil, fmt.Errorf("decode rules: %w", err)
	}
	rule.SetNamespace(v.Namespace)
	return rule, nil
}
