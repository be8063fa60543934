package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/test/local"
)

// registry is the first part of the names of all images, which users replace; tag is the tag of an unnamed version.
const (
	registry = config.DefaultImageRepository
	tag      = "v0.0.0-dev"
)

// kustomizeVersion is the API version of a Kustomization; a Component has another one.
const kustomizeVersion = "kustomize.config.k8s.io/v1beta1"

// kustomization contains the fields of a kustomization.yaml that we write.
type kustomization struct {
	// comment is written above the fields; empty for none.
	comment string

	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Resources  []string `json:"resources,omitempty"`
	Patches    []patch  `json:"patches,omitempty"`
}

type patch struct {
	Patch string `json:"patch"`
}

// images writes the component from which all overlays take the versions.
func images(folder string) error {
	out := bytes.NewBufferString(header)
	out.WriteString(`# The version of all images, for all overlays: the one place to change it. An overlay of yours can do the same; see
# docs/deploying.md.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
images:
`)
	version := "&version " + tag
	for _, each := range deployable.All() {
		fmt.Fprintf(out, "- name: %s/%s\n  newTag: %s\n", registry, each.Name, version)
		version = "*version"
	}
	return writeFile(filepath.Join(folder, "kustomization.yaml"), out.Bytes())
}

// sourceTarget writes, for each binary that may have a target, which part of its base is for which of the two clusters.
func sourceTarget(root, folder string) error {
	var failures []error
	for _, each := range deployable.All() {
		if !each.HasTarget() {
			continue
		}
		roles, err := read(filepath.Join(root, each.Name, "rbac", "role.yaml"))
		if err != nil {
			return err
		}
		all := each.Objects(image(each))
		source, target := side(each, roles, each.SourceObjects(image(each)), false), side(each, roles, each.TargetObjects(), true)
		all = append(roles, all...)
		failures = append(failures,
			overlay(filepath.Join(folder, "source", each.Name), each, all, source),
			overlay(filepath.Join(folder, "target", each.Name), each, all, target))
	}
	return errors.Join(failures...)
}

func image(b deployable.Binary) string { return registry + "/" + b.Name }

// side returns the objects that are declared for a cluster, with the roles that are shipped for it.
func side(b deployable.Binary, roles, declared []client.Object, target bool) []client.Object {
	var wanted []client.Object
	for _, role := range roles {
		if b.IsForTarget(role.GetName()) == target {
			wanted = append(wanted, role)
		}
	}
	return append(wanted, declared...)
}

// overlay writes the changes that turn the binary's own kustomization into the wanted objects: deletions, and patches of the two kinds of
// objects that depend on their clusters.
func overlay(folder string, b deployable.Binary, have, want []client.Object) error {
	wanted := map[string]client.Object{}
	for _, each := range want {
		wanted[identity(each)] = each
	}
	k := kustomization{
		APIVersion: kustomizeVersion, Kind: "Kustomization", Resources: []string{path.Join("../../../..", b.Name)},
	}
	for _, each := range have {
		var fields map[string]any
		switch object := wanted[identity(each)].(type) {
		case nil:
			fields = named(each)
			fields["$patch"] = "delete"
		case *corev1.ConfigMap:
			fields = named(each)
			fields["data"] = object.Data
		case *appsv1.Deployment:
			fields = named(each)
			fields["spec"] = podPatch(object.Spec.Template)
		default:
			continue
		}
		if err := k.addPatch(fields); err != nil {
			return err
		}
	}
	return k.write(folder)
}

// invalidator writes the component that enables the token invalidator, in an overlay for one cluster with webhook-server: it adds
// token-controllers without the roles of the token requestor, and configures both.
func invalidator(folder string) error {
	k := kustomization{APIVersion: "kustomize.config.k8s.io/v1alpha1", Kind: "Component", Resources: []string{"../../token-controllers"}}
	files := deployable.Invalidating()
	for _, each := range deployable.All() {
		if files[each.Name] == "" {
			continue
		}
		each.Config = files[each.Name]
		for _, object := range each.Objects(image(each)) {
			fields := named(object)
			switch object := object.(type) {
			case *corev1.ConfigMap:
				fields["data"] = object.Data
			case *appsv1.Deployment:
				fields["spec"] = map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": object.Spec.Template.Annotations}}}
			case *rbacv1.ClusterRoleBinding:
				if !deployable.OnlyForRequestor(object.RoleRef.Name) {
					continue
				}
				fields["$patch"] = "delete"
			default:
				continue
			}
			if err := k.addPatch(fields); err != nil {
				return err
			}
		}
	}
	return k.write(folder)
}

// addPatch appends a patch with these fields.
func (k *kustomization) addPatch(fields map[string]any) error {
	text, err := yaml.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	k.Patches = append(k.Patches, patch{Patch: string(text)})
	return nil
}

func (k *kustomization) write(folder string) error {
	content, err := yaml.Marshal(k)
	if err != nil {
		return fmt.Errorf("encode kustomization: %w", err)
	}
	return writeFile(filepath.Join(folder, "kustomization.yaml"), append([]byte(header+k.comment), content...))
}

// podPatch returns the part of a Pod that depends on its clusters.
func podPatch(template corev1.PodTemplateSpec) map[string]any {
	container := template.Spec.Containers[0]
	return map[string]any{"template": map[string]any{
		"metadata": map[string]any{"labels": template.Labels, "annotations": template.Annotations},
		"spec": map[string]any{
			"containers": []map[string]any{{"name": container.Name, "volumeMounts": container.VolumeMounts}},
			"volumes":    template.Spec.Volumes,
		},
	}}
}

// named returns the fields with which a patch identifies an object.
func named(object client.Object) map[string]any {
	gvk := object.GetObjectKind().GroupVersionKind()
	metadata := map[string]any{"name": object.GetName()}
	if object.GetNamespace() != "" {
		metadata["namespace"] = object.GetNamespace()
	}
	return map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "metadata": metadata}
}

func identity(object client.Object) string {
	return fmt.Sprintf("%s %s/%s", object.GetObjectKind().GroupVersionKind().Kind, object.GetNamespace(), object.GetName())
}

// read returns the objects of files.
func read(files ...string) ([]client.Object, error) {
	found, err := local.ReadManifests(files...)
	objects := make([]client.Object, len(found))
	for i, each := range found {
		objects[i] = each
	}
	return objects, err
}

func writeFile(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	if err := os.WriteFile(name, content, 0o644); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return nil
}
