package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/test/local"
)

// explicit returns the configuration of a binary whose shipped configuration does nothing in one cluster, so that a user must write
// another.
func explicit(binary string) string {
	switch binary {
	case extensionController:
		return explicitSeed
	case "token-controllers":
		return explicitTokens
	}
	return ""
}

const explicitTokens = `apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
leaderElection: {resourceNamespace: espalier-system}
controllers:
  tokenRequestor: {enabled: true}
espalier:
  token:
    audiences: []
    sameCluster: {scope: SecretNamespace}
`

// Ensure applies the shipped manifests of the binaries like a user, with images of the version under test and the shipped configuration:
// namespace, CRDs, and deploy/<binary>. A binary whose shipped configuration does nothing gets the configuration from explicit. Ensure then
// waits until the Deployments have rolled out. If everything exists already, nothing changes. It fails for a binary that must not be
// deployed in this run.
func (c *Cluster) Ensure(ctx context.Context, binaries ...string) error {
	if err := c.prepare(ctx, binaries); err != nil {
		return err
	}
	if slices.Contains(binaries, extensionController) {
		if err := c.prepareSeed(ctx); err != nil {
			return err
		}
		approving, stop := context.WithCancel(ctx)
		defer stop()
		go c.ApproveSeed(approving)
	}
	for _, binary := range binaries {
		if err := c.deploy(ctx, binary, explicit(binary)); err != nil {
			return err
		}
	}
	for _, binary := range binaries {
		if err := c.RolledOut(ctx, binary); err != nil {
			return err
		}
	}
	return nil
}

// Configure gives a deployed binary another configuration file, and waits until its Pods use it. Ensure restores the shipped configuration.
func (c *Cluster) Configure(ctx context.Context, binary, config string) error {
	if err := c.deploy(ctx, binary, config); err != nil {
		return err
	}
	return c.RolledOut(ctx, binary)
}

// Remove deletes everything that Ensure has applied except for namespace and CRDs, and the webhook configurations that a binary has
// created. It waits until the Pods are gone. Missing objects are not an error.
func (c *Cluster) Remove(ctx context.Context, binaries ...string) error {
	for _, binary := range binaries {
		if err := c.withOverlay(ctx, binary, "", "delete", "--ignore-not-found", "--wait"); err != nil {
			return fmt.Errorf("remove %s: %w", binary, err)
		}
	}
	for _, binary := range binaries {
		if err := c.withdraw(ctx, binary); err != nil {
			return fmt.Errorf("remove %s: %w", binary, err)
		}
	}
	return nil
}

// withdraw waits until the Pods are gone, because they may write until then, and deletes the webhook configurations of the binary.
func (c *Cluster) withdraw(ctx context.Context, binary string) error {
	err := await(ctx, RolloutPatience, "end of its Pods", func(ctx context.Context) error {
		pods, err := c.Pods(ctx, binary)
		if err == nil && len(pods) > 0 {
			return fmt.Errorf("%d are still there", len(pods))
		}
		return err
	})
	if err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Name: configurationsOf(binary)}
	for _, configuration := range []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta},
	} {
		if err := client.IgnoreNotFound(c.Client.Delete(ctx, configuration)); err != nil {
			return err
		}
	}
	return nil
}

// configurationsOf returns the name of the webhook configurations of a binary. The configurations of garden-operator have the name of the
// configurations of Gardener's operator, which they replace.
func configurationsOf(binary string) string {
	if binary == "garden-operator" {
		return "gardener-operator"
	}
	return "espalier-" + binary
}

// prepare applies the objects that must exist before the binaries start.
func (c *Cluster) prepare(ctx context.Context, binaries []string) error {
	definitions := []string{"-f", filepath.Join("deploy", "crds")}
	apply := []string{"apply", "--server-side", "--force-conflicts", "-f", filepath.Join("deploy", "namespace")}
	for _, binary := range binaries {
		for name, args := range map[string]*[]string{"namespace": &apply, "crds": &definitions} {
			folder := filepath.Join("deploy", binary, name)
			if _, err := os.Stat(filepath.Join(c.root, folder)); err == nil {
				*args = append(*args, "-f", folder)
			}
		}
	}
	for _, args := range [][]string{apply, {"wait", "--for=condition=Established", "--timeout=60s"}} {
		if _, err := c.Kubectl(ctx, slices.Concat(args, definitions)...); err != nil {
			return fmt.Errorf("prepare cluster for %s: %w", strings.Join(binaries, ", "), err)
		}
	}
	return nil
}

// deploy applies the overlay of a binary. It also resets fields that a suite has changed, such as the number of replicas.
func (c *Cluster) deploy(ctx context.Context, binary, config string) error {
	if c.Lacks(binary) {
		return fmt.Errorf("deploy %s: this run leaves it out", binary)
	}
	if err := c.withOverlay(ctx, binary, config, "apply", "--server-side", "--force-conflicts"); err != nil {
		return fmt.Errorf("deploy %s: %w", binary, err)
	}
	return nil
}

// Scale sets the number of replicas of a binary's Deployment. It does not wait for the Pods.
func (c *Cluster) Scale(ctx context.Context, binary string, replicas int32) error {
	_, err := c.Kubectl(ctx, "scale", "-n", SystemNamespace, "deployment/espalier-"+binary, fmt.Sprintf("--replicas=%d", replicas))
	return err
}

// Pods returns the Pods of a binary, including terminating ones.
func (c *Cluster) Pods(ctx context.Context, binary string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := c.Client.List(ctx, pods, client.InNamespace(SystemNamespace), client.MatchingLabels{"app.kubernetes.io/name": "espalier-" + binary})
	return pods.Items, err
}

// overlay contains the changes of a user to deploy/<binary>: the repository of the images, and another configuration file.
type overlay struct {
	binary, repository, version string
	// config replaces the configuration file unless it is empty.
	config string
	// base is the folder deploy/<binary>, relative to the folder of the overlay.
	base string
}

func (o overlay) name() string { return "espalier-" + o.binary }

// kustomization returns the kustomization.yaml of the overlay. The same overlay always gives the same text, so applying it again changes
// nothing.
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
		sum := sha256.Sum256([]byte(o.config))
		patches := make([]any, 0, 2)
		for _, patch := range []*unstructured.Unstructured{
			local.NewObject("v1", "ConfigMap", SystemNamespace, o.name(), map[string]any{"data": map[string]any{"config.yaml": o.config}}),
			// This annotation changes with the configuration and so replaces the Pods, which read the file only at their start.
			local.NewObject("apps/v1", "Deployment", SystemNamespace, o.name(), map[string]any{
				"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
					"annotations": map[string]any{"espalier.dev/config-checksum": hex.EncodeToString(sum[:8])},
				}}},
			}),
		} {
			text, err := yaml.Marshal(patch.Object)
			if err != nil {
				return nil, err
			}
			patches = append(patches, map[string]any{"patch": string(text)})
		}
		content["patches"] = patches
	}
	return yaml.Marshal(content)
}

// withOverlay runs kubectl with a folder that contains the overlay of a binary. The folder is inside of the repository, because kustomize
// requires this for the base.
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
	if err = os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("write overlay: %w", err)
	}
	folder, err := os.MkdirTemp(parent, "overlay-"+binary+"-")
	if err != nil {
		return fmt.Errorf("write overlay: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err = os.WriteFile(filepath.Join(folder, "kustomization.yaml"), content, 0o600); err != nil {
		return fmt.Errorf("write overlay: %w", err)
	}
	_, err = c.Kubectl(ctx, append(args, "-k", folder)...)
	return err
}

// Kubectl runs kubectl as administrator and returns its standard output. An error contains its standard error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	kubectl, err := c.kubectl()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, kubectl, args...)
	cmd.Dir = c.root
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("run kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return out.String(), nil
}

// FindKubectl returns the path of kubectl. It builds kubectl only if neither the environment variable nor PATH contains one.
func FindKubectl(ctx context.Context) (string, error) {
	if named := os.Getenv(KubectlVariable); named != "" {
		return named, nil
	}
	if found, err := exec.LookPath("kubectl"); err == nil {
		return found, nil
	}
	assets, err := local.Assets(ctx, os.Stderr)
	if err != nil {
		return "", fmt.Errorf("find kubectl: %w", err)
	}
	return filepath.Join(assets, "kubectl"), nil
}
