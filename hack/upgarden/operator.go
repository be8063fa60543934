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
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden/component"
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
	config, err := skipping(u.skipped(), shipped)
	if err != nil {
		return err
	}
	folder := filepath.Join(u.state, "operator")
	if err := errors.Join(
		os.MkdirAll(folder, 0o700),
		os.WriteFile(filepath.Join(folder, "images.yaml"), []byte(all), 0o600),
		os.WriteFile(filepath.Join(folder, "components.yaml"), []byte(lists), 0o600),
		os.WriteFile(filepath.Join(folder, "configmap.yaml"), config, 0o600),
	); err != nil {
		return fmt.Errorf("write overlay: %w", err)
	}
	if err := u.script(ctx, "operator", folder, u.version, strings.Join(u.skipped(), ",")); err != nil {
		return errors.Join(err, errors.New("see: kubectl -n espalier-system get pods"))
	}
	return nil
}

// skipped returns the names of the components that the operator skips: all observability components, because the node has no images of
// them. A Seed in the runtime cluster needs prometheus-operator, of which it has a stand-in.
func (o options) skipped() []string {
	return slices.DeleteFunc(components.Skippable(), func(name string) bool { return o.seed && name == component.PrometheusOperator })
}

// skipping returns the ConfigMap of the operator with a configuration that skips components.
func skipping(names []string, shipped []byte) ([]byte, error) {
	const file = "config.yaml"
	configuration := &corev1.ConfigMap{}
	if err := yaml.Unmarshal(shipped, configuration); err != nil {
		return nil, fmt.Errorf("decode configuration of operator: %w", err)
	}
	before, after, found := strings.Cut(configuration.Data[file], deployable.ShippedSkips)
	if !found {
		return nil, errors.New("the configuration of the operator has no espalier.garden.skipComponents")
	}
	configuration.Data[file] = before + "skipComponents: [" + strings.Join(names, ", ") + "]" + after
	return yaml.Marshal(configuration)
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
