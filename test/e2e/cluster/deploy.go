package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrLeftOut says that a suite asks for a binary that this run leaves out.
var ErrLeftOut = errors.New("this run leaves it out")

// explicit are the configurations that a user must write, for binaries that do nothing in one cluster as they are shipped.
func explicit(binary string) string {
	if binary != "token-controllers" {
		return ""
	}
	return `apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
leaderElection: {resourceNamespace: espalier-system}
controllers:
  tokenRequestor: {enabled: true}
espalier:
  token:
    audiences: []
    sameCluster: {scope: SecretNamespace}
`
}

// Ensure applies the shipped manifests of the binaries, with images of the version under test and the configuration that is
// shipped, as a user would: namespace, CRDs, and deploy/<binary>. A binary that is shipped without one gets an explicit one. Then it waits until their Deployments have rolled out.
// Where all of that is there already, nothing changes. The error wraps ErrLeftOut if the run leaves out one of them.
func (c *Cluster) Ensure(ctx context.Context, binaries ...string) error {
	return c.EnsureVersion(ctx, c.Version, binaries...)
}

// EnsureVersion is Ensure with images of another version.
func (c *Cluster) EnsureVersion(ctx context.Context, version string, binaries ...string) error {
	for _, binary := range binaries {
		if c.Lacks(binary) {
			return fmt.Errorf("deploy %s: %w", binary, ErrLeftOut)
		}
	}
	if err := c.prepare(ctx, binaries); err != nil {
		return err
	}
	for _, binary := range binaries {
		if err := c.deploy(ctx, binary, version, explicit(binary)); err != nil {
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

// Configure gives a binary another configuration file and waits until its Pods have it. The binary must be deployed; Ensure
// gives it the shipped configuration again.
func (c *Cluster) Configure(ctx context.Context, binary, config string) error {
	if c.Lacks(binary) {
		return fmt.Errorf("configure %s: %w", binary, ErrLeftOut)
	}
	if err := c.deploy(ctx, binary, c.Version, config); err != nil {
		return err
	}
	return c.RolledOut(ctx, binary)
}

// Remove deletes what Ensure has applied but namespace and CRDs, and the webhook configurations that a server has made for
// itself; then it waits until the Pods are gone. What is not there is not an error.
func (c *Cluster) Remove(ctx context.Context, binaries ...string) error {
	for _, binary := range binaries {
		folder, remove, err := c.overlayFolder(binary, c.Version, "")
		if err != nil {
			return err
		}
		_, err = c.Kubectl(ctx, "delete", "--ignore-not-found", "--wait", "-k", folder)
		remove()
		if err != nil {
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

// withdraw waits for the end of the Pods, which may write until then, and removes the webhook configurations.
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
	meta := metav1.ObjectMeta{Name: "espalier-" + binary}
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

// prepare applies what the binaries need to be there before them.
func (c *Cluster) prepare(ctx context.Context, binaries []string) error {
	folders := []string{filepath.Join("deploy", "crds")}
	for _, binary := range binaries {
		own := filepath.Join("deploy", binary, "crds")
		if found, err := filepath.Glob(filepath.Join(c.root, own, "*.yaml")); err == nil && len(found) > 0 {
			folders = append(folders, own)
		}
	}
	files := make([]string, 0, 2*len(folders))
	for _, folder := range folders {
		files = append(files, "-f", folder)
	}
	apply := append([]string{"apply", "--server-side", "--force-conflicts", "-f", filepath.Join("deploy", "namespace")}, files...)
	if _, err := c.Kubectl(ctx, apply...); err != nil {
		return fmt.Errorf("prepare cluster for %s: %w", strings.Join(binaries, ", "), err)
	}
	wait := append([]string{"wait", "--for=condition=Established", "--timeout=60s"}, files...)
	if _, err := c.Kubectl(ctx, wait...); err != nil {
		return fmt.Errorf("prepare cluster for %s: %w", strings.Join(binaries, ", "), err)
	}
	return nil
}

// deploy takes over whatever a suite has changed in between, such as the number of replicas.
func (c *Cluster) deploy(ctx context.Context, binary, version, config string) error {
	folder, remove, err := c.overlayFolder(binary, version, config)
	if err != nil {
		return err
	}
	defer remove()
	if _, err := c.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-k", folder); err != nil {
		return fmt.Errorf("deploy %s: %w", binary, err)
	}
	return nil
}

// Pods returns the Pods of a binary, those that are ending included.
func (c *Cluster) Pods(ctx context.Context, binary string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := c.Client.List(ctx, pods, client.InNamespace(SystemNamespace), client.MatchingLabels{"app.kubernetes.io/name": "espalier-" + binary})
	return pods.Items, err
}
