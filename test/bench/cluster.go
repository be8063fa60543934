package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/local"
)

const (
	binaryName      = "managedresource-controller"
	bareName        = "bare-client"
	systemNamespace = "espalier-system"
	controllerUser  = "system:serviceaccount:" + systemNamespace + ":" + binaryName
	bareUser        = "system:serviceaccount:" + systemNamespace + ":" + bareName
	rbacGroup       = "rbac.authorization.k8s.io"
	// tokenLifetime is longer than any run.
	tokenLifetime = 24 * time.Hour
)

// programs contains the locations of all programs that the benchmark needs.
type programs struct{ root, assets, controller string }

// cluster is an API server and its clients.
type cluster struct {
	plane     *local.ControlPlane
	audit     auditLog
	admin     client.Client
	objects   dynamic.Interface  // of the administrator
	metadata  metadata.Interface // of the administrator
	discovery discovery.DiscoveryInterface
	bare      dynamic.Interface // of the bare client
}

// startCluster starts a control plane; after an error there is nothing to stop.
func startCluster(ctx context.Context, r runner, s setup, dir string) (*cluster, error) {
	plane, err := local.Start(ctx, s.controlPlane(dir, r.programs.assets, r.report))
	if err != nil {
		return nil, err
	}
	c := &cluster{plane: plane, audit: auditLog{plane.AuditLog()}}
	if err := c.connect(); err != nil {
		return nil, errors.Join(err, plane.Stop())
	}
	return c, nil
}

func (c *cluster) connect() (err error) {
	config := c.plane.AdminConfig()
	if c.admin, err = client.New(config, client.Options{}); err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	if c.objects, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	if c.metadata, err = metadata.NewForConfig(config); err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	config.Timeout = phaseLimit // the default timeout is shorter than a profile
	if c.discovery, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	return nil
}

func (c *cluster) connectBareClient(ctx context.Context) error {
	config, err := bareConfig(ctx, c.plane.AdminConfig())
	if err != nil {
		return err
	}
	if c.bare, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	return nil
}

// prepare builds the controller and, if they do not exist, the binaries of the control plane.
func prepare(ctx context.Context, r *report, o options) (programs, error) {
	root, err := local.RepositoryRoot()
	if err != nil {
		return programs{}, err
	}
	r.step("looking for the control plane's binaries")
	assets, err := local.Assets(ctx, r)
	if err != nil {
		return programs{}, err
	}
	p := programs{root: root, assets: assets, controller: filepath.Join(root, "bin", binaryName)}
	if o.binary != "" {
		p.controller = o.binary
		return p, nil
	}
	r.step("building bin/%s", binaryName)
	build := exec.CommandContext(ctx, "go", "build", "-o", p.controller, "./cmd/"+binaryName)
	build.Dir, build.Stdout, build.Stderr = root, r, r
	if err := build.Run(); err != nil {
		return programs{}, fmt.Errorf("build %s: %w", binaryName, err)
	}
	return p, nil
}

// install creates the CRDs and the controller's own role in the source, and the two ServiceAccounts in each cluster. In the target the
// controller has all rights, as its documentation assumes; the bare client has all rights everywhere.
func (b *bench) install(ctx context.Context) error {
	crds, err := readManifests(filepath.Join(b.programs.root, "deploy", "crds"))
	if err != nil {
		return err
	}
	roles, err := readManifests(filepath.Join(b.programs.root, "deploy", binaryName, "rbac"))
	if err != nil {
		return err
	}
	for _, c := range b.clusters() {
		err = c.apply(ctx, accounts()...)
		if err != nil {
			return err
		}
	}
	var bindings []*unstructured.Unstructured
	for _, o := range roles {
		if o.GetKind() == "Role" {
			bindings = append(bindings, binding("Role", o.GetNamespace(), o.GetName(), binaryName))
		}
	}
	err = errors.Join(
		b.source.apply(ctx, append(crds, roles...)...),
		b.source.apply(ctx, object("v1", "Namespace", "", sourceNamespace, nil), object("v1", "Namespace", "", bareSets, nil), binding("ClusterRole", "", "espalier-"+binaryName+"-source", binaryName)),
		b.source.apply(ctx, bindings...),
		b.target.apply(ctx, binding("ClusterRole", "", "cluster-admin", binaryName)),
	)
	if err != nil {
		return err
	}
	return await(ctx, 30*time.Second, "ManagedResources to be served", func(ctx context.Context) error {
		_, err := b.source.metadata.Resource(managedResources).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
}

// accounts returns the ServiceAccounts for both clusters.
func accounts() []*unstructured.Unstructured {
	return []*unstructured.Unstructured{
		object("v1", "Namespace", "", systemNamespace, nil),
		object("v1", "ServiceAccount", systemNamespace, binaryName, nil),
		object("v1", "ServiceAccount", systemNamespace, bareName, nil),
		binding("ClusterRole", "", "cluster-admin", bareName),
	}
}

func (c *cluster) apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	for _, o := range objects {
		if err := c.admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("espalier-bench")); err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// createNamespaces creates namespaces for our objects and for those of the bare client.
func (b *bench) createNamespaces(ctx context.Context) error {
	return parallel(ctx, 2*b.size.sets, func(ctx context.Context, i int) error {
		run := oursRun
		if i >= b.size.sets {
			run = floorRun
		}
		return create(ctx, b.target.objects, item{namespaces, object("v1", "Namespace", "", namespaceOf(run, i%b.size.sets), nil)})
	})
}

// binding binds a role to a ServiceAccount, in one namespace or, with a ClusterRole, everywhere.
func binding(kind, namespace, role, serviceAccount string) *unstructured.Unstructured {
	return object(rbacGroup+"/v1", kind+"Binding", namespace, "bench:"+role+":"+serviceAccount, map[string]any{
		"roleRef":  map[string]any{"apiGroup": rbacGroup, "kind": kind, "name": role},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": systemNamespace, "name": serviceAccount}},
	})
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

// readManifests reads every object of the YAML files of a folder.
func readManifests(folder string) ([]*unstructured.Unstructured, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(fmt.Errorf("read manifests: there are none in %s", folder), err)
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
		for {
			o := &unstructured.Unstructured{}
			err := documents.Decode(&o.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("read manifests of %s: %w", file, err)
			}
			if kind := o.GetKind(); kind != "" && kind != "Kustomization" {
				objects = append(objects, o)
			}
		}
	}
	return objects, nil
}

// bareConfig is the client configuration of the bare client.
func bareConfig(ctx context.Context, admin *rest.Config) (*rest.Config, error) {
	kubeconfig, err := local.ServiceAccountKubeconfig(ctx, admin, systemNamespace, bareName, tokenLifetime)
	if err != nil {
		return nil, err
	}
	return configOf(kubeconfig)
}

// endedError is an error of a probe that ends the wait.
type endedError struct{ error }

// await calls probe until it succeeds. The error contains the awaited state and the last error.
func await(ctx context.Context, limit time.Duration, what string, probe func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		err := probe(limited)
		if err == nil {
			return nil
		}
		if ended := (endedError{}); errors.As(err, &ended) {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limited.Done():
			return fmt.Errorf("wait for %s: not within %s: %w", what, limit, err)
		case <-ticker.C:
		}
	}
}
