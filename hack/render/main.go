// Command render writes deploy/ from the declarations in Go: the objects of each binary, for one cluster and for two, the Helm chart,
// webhook configurations for any cluster and for Gardener's clusters, and admission policies. hack/generate.sh runs it in the root of the
// repository, after the roles and CRDs are written. A kustomization.yaml without the header for generated files is written by hand.
//
// With the argument families it prints the name of each binary, with the name of its family.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/deployable"
	gardenwebhook "github.com/espalier-dev/espalier/internal/garden/webhook"
	projectwebhook "github.com/espalier-dev/espalier/internal/project/webhook"
	"github.com/espalier-dev/espalier/internal/webhook/policies"
	"github.com/espalier-dev/espalier/internal/webhook/registrations"
	"github.com/espalier-dev/espalier/test/local"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "families" {
		for _, each := range deployable.All() {
			fmt.Println(each.Name, each.Family)
		}
		return
	}
	if err := run("deploy"); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	t := tree{}
	err := errors.Join(
		t.addObjects("namespace/namespace.yaml", deployable.NamespaceObject()),
		t.addObjects("garden-operator/namespace/namespace.yaml", deployable.GardenNamespaces()...),
		t.addKinds("webhook-server/webhooks", registrations.Shipped(config.FlavorStandalone)),
		t.addKinds("webhook-server/gardener/runtime", registrations.Shipped(config.FlavorGardenerRuntime)),
		t.addKinds("webhook-server/gardener/shoot", registrations.Shipped(config.FlavorGardenerShoot)),
		t.addKinds("project-controller/webhooks", projectwebhook.Shipped()),
		t.addKinds("garden-operator/webhooks", gardenwebhook.Shipped()),
		t.addPolicies(),
		t.addInvalidator(),
		t.addChart(root),
	)
	t.addImages()
	err = errors.Join(err, t.addTogether(root), t.addApart())
	for _, each := range deployable.All() {
		err = errors.Join(err, t.addBinary(root, each))
	}
	if err != nil {
		return err
	}
	return t.write(root)
}

// addBinary adds the manifests of a binary: a base for one cluster, overlays for two clusters, and a template of the chart. An overlay sets
// the tags of the images.
func (t tree) addBinary(root string, b deployable.Binary) error {
	roles, err := shippedRoles(root, b)
	if err != nil {
		return err
	}
	objects := b.Objects(image(b))
	charted := slices.Clone(roles)
	if impersonates(b) {
		alternatives, err := local.ReadManifests(filepath.Join(root, impersonationFile))
		if err != nil {
			return err
		}
		for _, each := range alternatives {
			charted = append(charted, each)
		}
	}
	return errors.Join(t.addBase(root, b, objects), t.addKinds(b.Name+"/base", objects), t.addOverlays(b, roles, objects),
		t.addTemplate(b, append(charted, objects...)))
}

// shippedRoles returns the roles of a binary, and the roles for the users of the binary.
func shippedRoles(root string, b deployable.Binary) ([]client.Object, error) {
	var roles []client.Object
	found, err := local.ReadManifests(roleFiles(root, b)...)
	if err != nil {
		return nil, err
	}
	for _, each := range found {
		roles = append(roles, each)
	}
	return roles, nil
}

func roleFiles(root string, b deployable.Binary) []string {
	var all []string
	for _, folder := range []string{"rbac", "roles"} {
		files, _ := filepath.Glob(filepath.Join(root, b.Name, folder, "*.yaml")) // the pattern is valid
		all = append(all, files...)
	}
	return all
}

// addKinds adds one file for each kind. The file has the name of the kind, without the suffix "webhookconfiguration".
func (t tree) addKinds(folder string, objects []client.Object) error {
	files := map[string][]client.Object{}
	for _, object := range objects {
		files[kindFile(object)] = append(files[kindFile(object)], object)
	}
	var err error
	for name, each := range files {
		err = errors.Join(err, t.addObjects(folder+"/"+name+".yaml", each...))
	}
	return err
}

func kindFile(object client.Object) string {
	return strings.TrimSuffix(strings.ToLower(object.GetObjectKind().GroupVersionKind().Kind), "webhookconfiguration")
}

func (t tree) addPolicies() error {
	const folder = "policies"
	k := kustomization{APIVersion: kustomizeVersion, Kind: "Kustomization"}
	var err error
	for _, each := range policies.All() {
		k.Resources = append(k.Resources, each.Handler+".yaml")
		err = errors.Join(err, t.addObjects(folder+"/"+each.Handler+".yaml", each.Objects...))
	}
	return errors.Join(err, t.addKustomization(folder, policiesComment, k))
}

const policiesComment = `# The handlers of webhook-server that API servers can run themselves: kubectl apply -k deploy/policies (Kubernetes
# 1.36 and later). They replace the server's handlers of the same names: do not use both. A policy that needs a value has
# no effect until a patch sets it. See docs/admission-policies.md.
`
