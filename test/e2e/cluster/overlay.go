package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// overlay contains a user's changes on top of deploy/<binary>: the repository of the images, and another configuration file.
type overlay struct {
	binary, repository, version string
	// config replaces the configuration file unless it is empty.
	config string
	// base is the folder deploy/<binary>, relative to that of the overlay.
	base string
}

func (o overlay) name() string { return "espalier-" + o.binary }

// kustomization renders the overlay. The same input gives the same output: applying it again changes nothing.
func (o overlay) kustomization() ([]byte, error) {
	content := map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1",
		"kind":       "Kustomization",
		"resources":  []string{o.base},
		"images": []any{map[string]any{
			"name": DefaultRepository + "/" + o.binary, "newName": o.repository + "/" + o.binary,
			"newTag": o.version,
		}},
	}
	if o.config != "" {
		patches, err := o.configuration()
		if err != nil {
			return nil, err
		}
		content["patches"] = patches
	}
	return yaml.Marshal(content)
}

// configuration changes the file, and also the Pods, because they read it only at their start.
func (o overlay) configuration() ([]any, error) {
	sum := sha256.Sum256([]byte(o.config))
	patches := make([]any, 0, 2)
	for _, patch := range []map[string]any{
		{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": o.name(), "namespace": SystemNamespace},
			"data": map[string]any{"config.yaml": o.config},
		},
		{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": o.name(), "namespace": SystemNamespace},
			"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
				"annotations": map[string]any{"espalier.dev/config-checksum": hex.EncodeToString(sum[:8])},
			}}},
		},
	} {
		text, err := yaml.Marshal(patch)
		if err != nil {
			return nil, err
		}
		patches = append(patches, map[string]any{"patch": string(text)})
	}
	return patches, nil
}

// withOverlay runs kubectl with a folder that has the overlay of a binary. The folder is inside of the repository, because kustomize
// requires it for the base.
func (c *Cluster) withOverlay(ctx context.Context, binary, config string, args ...string) error {
	o := overlay{
		binary: binary, repository: c.Repository, version: c.Version, config: config,
		base: filepath.Join("..", "..", "..", "deploy", binary),
	}
	content, err := o.kustomization()
	if err != nil {
		return fmt.Errorf("render overlay: %w", err)
	}
	parent := filepath.Join(c.root, ".local", "e2e")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("write overlay: %w", err)
	}
	folder, err := os.MkdirTemp(parent, "overlay-"+binary+"-")
	if err != nil {
		return fmt.Errorf("write overlay: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), content, 0o600); err != nil {
		return fmt.Errorf("write overlay: %w", err)
	}
	_, err = c.Kubectl(ctx, append(args, "-k", folder)...)
	return err
}
