package main

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/deployable"
)

// registry is the first part of the names of all images, which users replace. tag is the tag of images if the version has no name.
const (
	registry = config.DefaultImageRepository
	tag      = "v0.0.0-dev"
)

// kustomizeVersion is the API version of a Kustomization; a Component has another one.
const kustomizeVersion = "kustomize.config.k8s.io/v1beta1"

// kustomization contains the fields of a kustomization.yaml that this command writes.
type kustomization struct {
	APIVersion string              `json:"apiVersion"`
	Kind       string              `json:"kind"`
	Resources  []string            `json:"resources,omitempty"`
	Components []string            `json:"components,omitempty"`
	Patches    []map[string]string `json:"patches,omitempty"`
}

// addImages adds the component that sets the versions of images, which all overlays use.
func (t tree) addImages() {
	var text strings.Builder
	text.WriteString(header)
	text.WriteString(`# The version of all images, for all overlays: the one place to change it. An overlay of yours can do the same; see
# docs/deploying.md.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
images:
`)
	version := "&version " + tag
	for _, each := range deployable.All() {
		_, _ = fmt.Fprintf(&text, "- name: %s\n  newTag: %s\n", image(each), version)
		version = "*version"
	}
	t["images/kustomization.yaml"] = text.String()
}

// addBase adds the kustomization of a binary, with its roles and its objects for the case that source and target are one cluster.
func (t tree) addBase(root string, b deployable.Binary, objects []client.Object) error {
	k := kustomization{APIVersion: kustomizeVersion, Kind: "Kustomization"}
	for _, file := range roleFiles(root, b) {
		k.Resources = append(k.Resources, path.Join(path.Base(filepath.Dir(file)), filepath.Base(file)))
	}
	for _, object := range objects {
		if file := "base/" + kindFile(object) + ".yaml"; !slices.Contains(k.Resources, file) {
			k.Resources = append(k.Resources, file)
		}
	}
	return t.addKustomization(b.Name, "# All objects that "+b.Name+" needs. Their namespaces must exist; see docs/running.md.\n", k)
}

// addTogether adds the overlay with all binaries for one cluster.
func (t tree) addTogether(root string) error {
	const comment = `# Everything in one cluster, except token-controllers, which needs your own configuration (docs/token-controllers.md),
# extension-controller, which is for the cluster of a Seed (docs/extension-controller.md), and garden-operator, which ../garden has. In your
# own overlay list the folders that you want: each binary works without the others.
`
	k := kustomization{
		APIVersion: kustomizeVersion, Kind: "Kustomization",
		Resources: []string{"../../namespace", "../../crds"}, Components: []string{"../../images"},
	}
	crds, _ := filepath.Glob(filepath.Join(root, "*", "crds")) // the pattern is valid
	for _, folder := range crds {
		k.Resources = append(k.Resources, "../../"+filepath.Base(filepath.Dir(folder))+"/crds")
	}
	for _, each := range deployable.All() {
		if !each.OffTogether {
			k.Resources = append(k.Resources, "../../"+each.Name)
		}
	}
	return t.addKustomization("overlays/standalone", comment, k)
}

// addApart adds the overlays for two clusters, with the binaries that need no patch of the user.
func (t tree) addApart() error {
	const inSource = `# For the cluster where the binaries run, with ManagedResources and Secrets.
# ../target is for the cluster that they manage.
# Each binary needs credentials for the target in Secret espalier-<binary>-target; see docs/deploying.md. webhook-server is not
# included: its folder needs a patch with the address at which API servers of the target reach it. project-controller is not
# included either: it supports one cluster only.
`
	const inTarget = `# For the cluster that is managed: the ServiceAccounts, with their roles, that the binaries of ../source act as.
# No binary runs here.
`
	source := kustomization{
		APIVersion: kustomizeVersion, Kind: "Kustomization",
		Resources: []string{"../../../namespace", "../../../crds"}, Components: []string{"../../../images"},
	}
	target := kustomization{APIVersion: kustomizeVersion, Kind: "Kustomization", Resources: []string{"../../../namespace"}}
	for _, each := range deployable.All() {
		if each.HasTarget() && each.WebhookPort == 0 {
			source.Resources = append(source.Resources, each.Name)
			target.Resources = append(target.Resources, each.Name)
		}
	}
	const folder = "overlays/source-target/"
	return errors.Join(t.addKustomization(folder+"source", inSource, source), t.addKustomization(folder+"target", inTarget, target))
}

// addOverlays adds the overlays of a binary that may have a target: one with the part of its base for the source, one with the part for the
// target.
func (t tree) addOverlays(b deployable.Binary, roles, objects []client.Object) error {
	if !b.HasTarget() {
		return nil
	}
	const folder = "overlays/source-target/"
	have := slices.Concat(roles, objects)
	return errors.Join(
		t.addOverlay(folder+"source/"+b.Name, b, have, side(b, roles, b.SourceObjects(image(b)), false)),
		t.addOverlay(folder+"target/"+b.Name, b, have, side(b, roles, b.TargetObjects(), true)))
}

func image(b deployable.Binary) string { return registry + "/" + b.Name }

// side returns the declared objects of a cluster, and the shipped roles for that cluster.
func side(b deployable.Binary, roles, declared []client.Object, target bool) []client.Object {
	var wanted []client.Object
	for _, role := range roles {
		if b.IsForTarget(role.GetName()) == target {
			wanted = append(wanted, role)
		}
	}
	return append(wanted, declared...)
}

// addOverlay adds an overlay that changes the objects of the binary's base into the wanted objects: it deletes objects, and patches the two
// kinds of objects that differ between one and two clusters.
func (t tree) addOverlay(folder string, b deployable.Binary, have, want []client.Object) error {
	wanted := map[string]client.Object{}
	for _, each := range want {
		wanted[identity(each)] = each
	}
	k := kustomization{APIVersion: kustomizeVersion, Kind: "Kustomization", Resources: []string{"../../../../" + b.Name}}
	var err error
	for _, each := range have {
		switch object := wanted[identity(each)].(type) {
		case nil:
			err = errors.Join(err, k.addPatch(each, "$patch", "delete"))
		case *corev1.ConfigMap:
			err = errors.Join(err, k.addPatch(each, "data", object.Data))
		case *appsv1.Deployment:
			err = errors.Join(err, k.addPatch(each, "spec", podPatch(object.Spec.Template)))
		}
	}
	return errors.Join(err, t.addKustomization(folder, "", k))
}

// addInvalidator adds the component that enables the token invalidator in an overlay for one cluster with webhook-server. The component
// adds token-controllers without the roles of the token requestor, and configures both binaries.
func (t tree) addInvalidator() error {
	k := kustomization{APIVersion: "kustomize.config.k8s.io/v1alpha1", Kind: "Component", Resources: []string{"../../token-controllers"}}
	files := deployable.Invalidating()
	var err error
	for _, each := range deployable.All() {
		if files[each.Name] == "" {
			continue
		}
		each.Config = files[each.Name]
		for _, object := range each.Objects(image(each)) {
			switch object := object.(type) {
			case *corev1.ConfigMap:
				err = errors.Join(err, k.addPatch(object, "data", object.Data))
			case *appsv1.Deployment:
				metadata := map[string]any{"annotations": object.Spec.Template.Annotations}
				err = errors.Join(err, k.addPatch(object, "spec", map[string]any{"template": map[string]any{"metadata": metadata}}))
			case *rbacv1.ClusterRoleBinding:
				if deployable.OnlyForRequestor(object.RoleRef.Name) {
					err = errors.Join(err, k.addPatch(object, "$patch", "delete"))
				}
			}
		}
	}
	return errors.Join(err, t.addKustomization("components/token-invalidator", "", k))
}

// addPatch appends a patch that sets a field of an object.
func (k *kustomization) addPatch(object client.Object, field string, value any) error {
	gvk := object.GetObjectKind().GroupVersionKind()
	metadata := map[string]any{"name": object.GetName()}
	if object.GetNamespace() != "" {
		metadata["namespace"] = object.GetNamespace()
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "metadata": metadata, field: value,
	})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	k.Patches = append(k.Patches, map[string]string{"patch": string(text)})
	return nil
}

// podPatch returns the part of a Pod template that differs between one and two clusters.
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

func identity(object client.Object) string {
	return fmt.Sprintf("%s %s/%s", object.GetObjectKind().GroupVersionKind().Kind, object.GetNamespace(), object.GetName())
}
