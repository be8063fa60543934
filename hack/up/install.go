package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/health"
	"github.com/espalier-dev/espalier/test/local"
)

// tokenLifetime is longer than the cluster of `make up` runs, because nothing renews the token.
const tokenLifetime = 365 * 24 * time.Hour

const (
	rbacGroup = "rbac.authorization.k8s.io"
	crdKind   = "CustomResourceDefinition"
)

// install prepares a binary: it applies the shipped manifests, creates its ServiceAccount, and writes a kubeconfig with a token and the
// configuration.
func (s settings) install(ctx context.Context, w cluster, b binary, e environment) error {
	if b.config == "" {
		return s.installDeployed(ctx, w, b, e)
	}
	shipped, err := s.shipped(b)
	if err != nil {
		return err
	}
	account := []*unstructured.Unstructured{
		local.NewObject("v1", "Namespace", "", systemNamespace, nil),
		local.NewObject("v1", "ServiceAccount", systemNamespace, b.name, nil),
	}
	if err := apply(ctx, w.client, slices.Concat(account, shipped)...); err != nil {
		return err
	}
	return s.writeFiles(ctx, w, b, e, b.config)
}

// shipped returns the CRDs, the namespaces and the roles that a binary ships, and bindings of the roles for the binary itself. The roles in
// the folder roles, which are for users, get no binding.
func (s settings) shipped(b binary) ([]*unstructured.Unstructured, error) {
	var objects, bindings []*unstructured.Unstructured
	for _, folder := range []string{"namespace", "crds", "roles", ".", "rbac"} {
		files, err := filepath.Glob(filepath.Join(s.root, "deploy", b.name, folder, "*.yaml"))
		if err != nil {
			return nil, fmt.Errorf("find manifests: %w", err)
		}
		found, err := local.ReadManifests(files...)
		if err != nil {
			return nil, err
		}
		objects = append(objects, installed(found)...)
		if folder != "roles" {
			bindings = append(bindings, bindingsOf(b, found)...)
		}
	}
	return append(objects, bindings...), nil
}

// installDeployed writes the files of the resource manager. They equal the files that the operator has deployed, except for addresses.
func (s settings) installDeployed(ctx context.Context, w cluster, b binary, e environment) error {
	deployed := local.NewObject("v1", "ConfigMap", b.namespace, b.name, nil)
	if err := w.client.Get(ctx, client.ObjectKeyFromObject(deployed), deployed); err != nil {
		return fmt.Errorf("read configuration of %s: %w", b.name, err)
	}
	config, _, _ := unstructured.NestedString(deployed.Object, "data", "config.yaml")
	return s.writeFiles(ctx, w, b, e, config+sourceConfig)
}

// accountNamespace is the namespace of the binary's ServiceAccount.
func (b binary) accountNamespace() string { return cmp.Or(b.namespace, systemNamespace) }

// writeFiles writes a kubeconfig with a token of the binary's ServiceAccount, and its configuration.
func (s settings) writeFiles(ctx context.Context, w cluster, b binary, e environment, config string) error {
	kubeconfig, err := local.ServiceAccountKubeconfig(ctx, w.admin, b.accountNamespace(), b.name, tokenLifetime)
	if err != nil {
		return err
	}
	if err := errors.Join(
		os.MkdirAll(s.state(b.name), 0o700),
		os.WriteFile(e.kubeconfig, kubeconfig, 0o600),
		os.WriteFile(s.state(b.name, "config.yaml"), []byte(e.render(config)), 0o600),
	); err != nil {
		return fmt.Errorf("write files of %s: %w", b.name, err)
	}
	return nil
}

// installed returns the objects to install without a Deployment. It omits the rules of aggregated roles, which the cluster computes: the
// rules in the manifest are empty, and applying them would remove all rights for a moment.
func installed(manifests []*unstructured.Unstructured) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, o := range manifests {
		if !slices.Contains([]string{"Namespace", crdKind, "ClusterRole", "Role"}, o.GetKind()) {
			continue
		}
		if _, aggregated := o.Object["aggregationRule"]; aggregated {
			o = o.DeepCopy()
			delete(o.Object, "rules")
		}
		objects = append(objects, o)
	}
	return objects
}

// bindingsOf returns bindings of the roles among the manifests to a binary's ServiceAccount. In this cluster, source and target are one.
func bindingsOf(b binary, manifests []*unstructured.Unstructured) (bindings []*unstructured.Unstructured) {
	for _, o := range manifests {
		kind, name := o.GetKind(), o.GetName()
		if kind != "Role" && kind != "ClusterRole" || deployable.IsForUsers(name) {
			continue
		}
		bindings = append(bindings, local.NewObject(rbacGroup+"/v1", kind+"Binding", o.GetNamespace(), name, map[string]any{
			"roleRef":  map[string]any{"apiGroup": rbacGroup, "kind": kind, "name": name},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": systemNamespace, "name": b.name}},
		}))
	}
	return bindings
}

// apply applies the objects in their order. After a CRD, it waits until the API server serves the kind.
func apply(ctx context.Context, c client.Client, objects ...*unstructured.Unstructured) error {
	for _, o := range objects {
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("espalier-up"), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("apply %s: %w", describe(o), err)
		}
	}
	for _, o := range objects {
		if o.GetKind() != crdKind {
			continue
		}
		if err := local.Await(ctx, 30*time.Second, describe(o)+" to be served", func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			v := health.Judge(o)
			if problem := cmp.Or(v.Failed, v.Unhealthy); problem != "" {
				return errors.New(problem)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func describe(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + client.ObjectKeyFromObject(o).String()
}
