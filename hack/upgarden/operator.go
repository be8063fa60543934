package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	list "github.com/espalier-dev/espalier/internal/garden/images"
)

// addOns are objects that a runtime cluster has before a garden: names, a class of volumes, and rights of the gateway's proxy.
//
//go:embed addons.yaml
var addOns string

func (u up) applyAddOns(ctx context.Context, images list.List) error {
	coredns, err := images.Find("coredns", list.Cluster{})
	if err != nil {
		return err
	}
	return u.apply(ctx, strings.ReplaceAll(addOns, "$COREDNS", coredns))
}

// overlay deploys the operator with files that name the images of this node, and csr-approver, so that the API server trusts the kubelet
// and `kubectl logs` works. Kustomize gives the ConfigMap a new name when a file changes, which replaces the Pods.
//
//go:embed overlay.yaml
var overlay string

// deployOperator deploys the operator and waits until it serves its webhooks.
func (u up) deployOperator(ctx context.Context, images list.List) error {
	all, err := imageList(images)
	if err != nil {
		return err
	}
	components, err := componentLists(images)
	if err != nil {
		return err
	}
	folder := filepath.Join(u.state, "operator")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("write overlay: %w", err)
	}
	for name, content := range map[string]string{
		"images.yaml": all, "components.yaml": components,
		"kustomization.yaml": strings.ReplaceAll(overlay, "$VERSION", u.version),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("write overlay: %w", err)
		}
	}
	apply := []string{"apply", "--server-side", "--force-conflicts"}
	definitions := []string{"-f", "deploy/crds", "-f", "deploy/garden-operator/crds/operator.gardener.cloud_gardens.yaml"}
	for _, each := range [][]string{
		slices.Concat(apply, definitions, []string{
			"-f", "deploy/namespace/namespace.yaml", "-f", "deploy/garden-operator/namespace/namespace.yaml",
		}),
		slices.Concat([]string{"wait", "--for=condition=Established", "--timeout=60s"}, definitions),
		slices.Concat(apply, []string{"-k", folder}),
		{"-n", "espalier-system", "rollout", "status", "--timeout=3m", "deployment/espalier-garden-operator"},
	} {
		if _, err := u.kubectl(ctx, "", each...); err != nil {
			return errors.Join(err, errors.New("see: kubectl -n espalier-system get pods"))
		}
	}
	return nil
}

// componentLists returns the lists of components in the format of internal/garden/images: etcd-druid uses an image for folders of backups.
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

// imageList returns a list of images in the format of internal/garden/images.
func imageList(images list.List) (string, error) {
	content, err := yaml.Marshal(map[string]list.List{"images": images})
	return string(content), err
}
