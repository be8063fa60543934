package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/local"
)

// tokenLifetime is longer than such a cluster runs, because the token is not renewed.
const tokenLifetime = 365 * 24 * time.Hour

const rbacGroup = "rbac.authorization.k8s.io"

// installCRDs installs the CRDs of a folder and waits until the API server serves them.
func installCRDs(ctx context.Context, c client.Client, folder string) error {
	crds, err := local.ReadManifests(folder)
	if err != nil {
		return err
	}
	if err := apply(ctx, c, crds...); err != nil {
		return err
	}
	for _, crd := range crds {
		if err := local.Await(ctx, 30*time.Second, describe(crd)+" to be served", func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
				return err
			}
			conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
			for _, each := range conditions {
				if fields, ok := each.(map[string]any); ok && fields["type"] == "Established" && fields["status"] == "True" {
					return nil
				}
			}
			return errors.New("not established")
		}); err != nil {
			return err
		}
	}
	return nil
}

// install prepares what a binary needs: its roles, its ServiceAccount with a token in a kubeconfig, and its configuration.
func (s settings) install(ctx context.Context, w cluster, b binary, e environment) error {
	err := s.installBefore(ctx, w.client, b)
	if err != nil {
		return err
	}
	manifests, err := local.ReadManifests(s.deployOf(b), filepath.Join(s.deployOf(b), "rbac"))
	if err != nil {
		return err
	}
	roles := rolesAmong(manifests)
	bindings, err := bindingsOf(b, roles)
	if err != nil {
		return fmt.Errorf("read %s: %w", s.deployOf(b), err)
	}
	objects := append([]*unstructured.Unstructured{
		object("v1", "Namespace", "", systemNamespace, nil),
		object("v1", "ServiceAccount", systemNamespace, b.name, nil),
	}, roles...)
	err = apply(ctx, w.client, append(objects, bindings...)...)
	if err != nil {
		return err
	}
	return s.writeFiles(ctx, w, b, e, b.config(e))
}

// accountNamespace is the namespace of the binary's ServiceAccount.
func (b binary) accountNamespace() string { return cmp.Or(b.namespace, systemNamespace) }

// writeFiles writes a kubeconfig with a token of the binary's ServiceAccount, and its configuration.
func (s settings) writeFiles(ctx context.Context, w cluster, b binary, e environment, config string) error {
	kubeconfig, err := local.ServiceAccountKubeconfig(ctx, w.admin, b.accountNamespace(), b.name, tokenLifetime)
	if err != nil {
		return err
	}
	if err = os.MkdirAll(s.state(b.name), 0o700); err != nil {
		return fmt.Errorf("create state folder: %w", err)
	}
	if err = os.WriteFile(e.kubeconfig, kubeconfig, 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	if err = os.WriteFile(s.state(b.name, "config.yaml"), []byte(config), 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

// installBefore installs what must exist before the binary's own roles: a namespace beside that of all binaries, and what it ships for its
// users: CRDs, and roles that it binds but does not have itself.
func (s settings) installBefore(ctx context.Context, c client.Client, b binary) error {
	if namespace := filepath.Join(s.deployOf(b), "namespace"); isFolder(namespace) {
		manifests, err := local.ReadManifests(namespace)
		if err != nil {
			return err
		}
		if err := apply(ctx, c, manifests...); err != nil {
			return err
		}
	}
	if crds := filepath.Join(s.deployOf(b), "crds"); isFolder(crds) {
		if err := installCRDs(ctx, c, crds); err != nil {
			return err
		}
	}
	roles := filepath.Join(s.deployOf(b), "roles")
	if !isFolder(roles) {
		return nil
	}
	manifests, err := local.ReadManifests(roles)
	if err != nil {
		return err
	}
	return apply(ctx, c, rolesAmong(manifests)...)
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// rolesAmong selects the roles. It omits the rules of aggregated roles, which the cluster computes: the rules in the manifest are empty,
// and applying them would remove all rights for a moment.
func rolesAmong(manifests []*unstructured.Unstructured) []*unstructured.Unstructured {
	var roles []*unstructured.Unstructured
	for _, o := range manifests {
		if o.GetKind() != "ClusterRole" && o.GetKind() != "Role" {
			continue
		}
		if _, aggregated := o.Object["aggregationRule"]; aggregated {
			o = o.DeepCopy()
			delete(o.Object, "rules")
		}
		roles = append(roles, o)
	}
	return roles
}

// bindingsOf binds every Role to the binary's ServiceAccount, and its cluster roles, which must be among those that it ships.
func bindingsOf(b binary, roles []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var bindings []*unstructured.Unstructured
	bind := func(kind, namespace, name string) {
		bindings = append(bindings, object(rbacGroup+"/v1", kind+"Binding", namespace, name, map[string]any{
			"roleRef":  map[string]any{"apiGroup": rbacGroup, "kind": kind, "name": name},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": systemNamespace, "name": b.name}},
		}))
	}
	for _, name := range b.clusterRoles {
		if !slices.ContainsFunc(roles, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ClusterRole" && o.GetName() == name }) {
			return nil, fmt.Errorf("there is no ClusterRole %q", name)
		}
		bind("ClusterRole", "", name)
	}
	for _, o := range roles {
		if o.GetKind() == "Role" {
			bind("Role", o.GetNamespace(), o.GetName())
		}
	}
	return bindings, nil
}

// installResourceManager writes the files of the resource manager. Only addresses differ from what the operator has deployed.
func (s settings) installResourceManager(ctx context.Context, w cluster, b binary, e environment) error {
	deployed := object("v1", "ConfigMap", b.namespace, b.name, nil)
	if err := w.client.Get(ctx, client.ObjectKeyFromObject(deployed), deployed); err != nil {
		return fmt.Errorf("read configuration of %s: %w", b.name, err)
	}
	config, _, _ := unstructured.NestedString(deployed.Object, "data", "config.yaml")
	return s.writeFiles(ctx, w, b, e, config+addresses("sourceClientConnection", e))
}

// apply applies the objects in their order.
func apply(ctx context.Context, c client.Client, objects ...*unstructured.Unstructured) error {
	for _, o := range objects {
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("espalier-up"), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("apply %s: %w", describe(o), err)
		}
	}
	return nil
}

func describe(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + client.ObjectKeyFromObject(o).String()
}

// object returns a small manifest.
func object(apiVersion, kind, namespace, name string, content map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	maps.Copy(o.Object, content)
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}
