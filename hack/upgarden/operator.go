package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

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
	components, err := componentLists(images)
	if err != nil {
		return err
	}
	folder := filepath.Join(u.state, "operator")
	if err := errors.Join(
		os.MkdirAll(folder, 0o700),
		os.WriteFile(filepath.Join(folder, "images.yaml"), []byte(all), 0o600),
		os.WriteFile(filepath.Join(folder, "components.yaml"), []byte(components), 0o600),
	); err != nil {
		return fmt.Errorf("write overlay: %w", err)
	}
	if err := u.script(ctx, "operator", folder, u.version); err != nil {
		return errors.Join(err, errors.New("see: kubectl -n espalier-system get pods"))
	}
	return nil
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
