package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/metricsexporter"
	"github.com/espalier-dev/espalier/internal/garden/components"
	list "github.com/espalier-dev/espalier/internal/garden/images"
)

func (u up) applyAddOns(ctx context.Context, images list.List) error {
	coredns, err := images.Find("coredns", list.Cluster{})
	if err != nil {
		return err
	}
	return u.script(ctx, "add-ons", coredns)
}

// deployOperator deploys garden-operator with lists of the images of this node, and waits until it serves its webhooks.
func (u up) deployOperator(ctx context.Context, images list.List) error {
	all, err := imageList(images)
	if err != nil {
		return err
	}
	lists, err := componentLists(images)
	if err != nil {
		return err
	}
	shipped, err := os.ReadFile(filepath.Join(u.root, "deploy", "garden-operator", "base", "configmap.yaml"))
	if err != nil {
		return fmt.Errorf("read configuration of operator: %w", err)
	}
	configMap, err := u.operatorConfiguration(shipped)
	if err != nil {
		return err
	}
	folder := filepath.Join(u.state, "operator")
	if err := errors.Join(
		os.MkdirAll(folder, 0o700),
		os.WriteFile(filepath.Join(folder, "images.yaml"), []byte(all), 0o600),
		os.WriteFile(filepath.Join(folder, "components.yaml"), []byte(lists), 0o600),
		os.WriteFile(filepath.Join(folder, "configmap.yaml"), configMap, 0o600),
	); err != nil {
		return fmt.Errorf("write overlay: %w", err)
	}
	if err := u.script(ctx, "operator", folder, u.version, strings.Join(u.skipped(), ",")); err != nil {
		return errors.Join(err, errors.New("see: kubectl -n espalier-system get pods"))
	}
	return nil
}

// skipped returns the names of the components that the operator skips, because the node has no images of them. A Seed in the runtime
// cluster needs prometheus-operator, of which there is a stand-in.
func (o options) skipped() []string {
	return slices.DeleteFunc(components.Skippable(), func(name string) bool {
		return o.seed && name == component.PrometheusOperator || o.observability && !slices.Contains(withoutProgram(), name)
	})
}

// withoutProgram returns the observability components whose programs cannot be built from a Go module. The gateway is no Envoy, so that
// it cannot ask for passwords, and nothing is exposed.
func withoutProgram() []string {
	return []string{component.Vali, component.Plutono, metricsexporter.Name, component.BasicAuthServer, component.Exposure}
}

// operatorConfiguration returns the ConfigMap of the operator with a configuration that skips components. With observability, the operator
// stores logs in VictoriaLogs only.
func (o options) operatorConfiguration(shipped []byte) ([]byte, error) {
	const file = "config.yaml"
	configMap, settings := &corev1.ConfigMap{}, map[string]any{}
	if err := yaml.Unmarshal(shipped, configMap); err != nil {
		return nil, fmt.Errorf("decode ConfigMap of operator: %w", err)
	}
	if err := yaml.Unmarshal([]byte(configMap.Data[file]), &settings); err != nil {
		return nil, fmt.Errorf("decode configuration of operator: %w", err)
	}
	set := func(value any, path ...string) error { return unstructured.SetNestedField(settings, value, path...) }
	skipped := make([]any, 0, len(o.skipped()))
	for _, each := range o.skipped() {
		skipped = append(skipped, each)
	}
	err := set(skipped, "espalier", "garden", "skipComponents")
	if o.observability {
		err = errors.Join(err, set(true, "espalier", "garden", "perses"),
			set(true, "featureGates", config.GateVictoriaLogsBackend), set(true, "featureGates", config.GateRemoveVali))
	}
	if err != nil {
		return nil, fmt.Errorf("change configuration of operator: %w", err)
	}
	content, err := yaml.Marshal(settings)
	if err != nil {
		return nil, err
	}
	configMap.Data[file] = string(content)
	return yaml.Marshal(configMap)
}

// componentLists returns the lists of images of components, in the format of internal/garden/images: etcd-druid uses an image for folders
// of backups.
func componentLists(images list.List) (string, error) {
	folders, err := images.Find("alpine", list.Cluster{})
	if err != nil {
		return "", err
	}
	own, err := imageList(list.List{{Name: "alpine", Ref: folders}})
	if err != nil {
		return "", err
	}
	content, err := yaml.Marshal(map[string]any{"components": []any{map[string]any{"name": "etcd-druid", "imageVectorOverwrite": own}}})
	return string(content), err
}

// imageList returns the list of images in the format of internal/garden/images.
func imageList(images list.List) (string, error) {
	content, err := yaml.Marshal(map[string]list.List{"images": images})
	return string(content), err
}
