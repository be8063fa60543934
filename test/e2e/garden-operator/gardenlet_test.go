//go:build e2e

package gardenoperator_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/chart/charttest"
	list "github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/test/local/node"
)

// The gardenlet of `make up-garden SEED=true` and its Seed are removed, and a Gardenlet takes their place: the chart is that of gardenlet's
// module, from a registry in the process of the test. At the end the former gardenlet runs again.
var _ = Describe("a Gardenlet in the place of the gardenlet of make up-garden SEED=true", Ordered, Label("gardenlet"), func() {
	It("deploys a gardenlet whose Seed becomes ready", func(ctx SpecContext) {
		l := requireSeed(ctx)
		folder := filepath.Join(l.machine.Dir, "garden", "gardenlet")
		config := map[string]any{}
		decode(filepath.Join(folder, "config.yaml"), &config)
		unstructured.RemoveNestedField(config, "seedConfig", "metadata") // the API server allows no name here
		// The default, the name for users of the garden, does not exist in the runtime cluster.
		const server = "https://virtual-garden-kube-apiserver.garden.svc.cluster.local"
		Expect(unstructured.SetNestedField(config, server, "gardenClientConnection", "gardenClusterAddress")).To(Succeed())
		images, err := os.ReadFile(filepath.Join(folder, "images.yaml"))
		Expect(err).NotTo(HaveOccurred())
		registry := l.serveChart(ctx)
		l.removeGardenlet(ctx)
		DeferCleanup(func(ctx SpecContext) {
			// Nothing deletes the objects of the chart. If no gardenlet has been registered, make up-garden SEED=true helps.
			Expect(c.Kubectl(ctx, "-n", namespace, "delete", "-l", "app=gardener,role=gardenlet", "deployments,services,roles,rolebindings,"+
				"poddisruptionbudgets,networkpolicies,clusterroles,clusterrolebindings")).Error().NotTo(HaveOccurred())
			Expect(c.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-k", folder)).Error().NotTo(HaveOccurred())
			l.awaitSeed(ctx)
		}, NodeTimeout(limit))
		configureOperator(ctx, "gardenlets", true)
		DeferCleanup(func(ctx SpecContext) { configureOperator(ctx, "gardenlets", nil) })

		l.createGardenlet(ctx, registry, config, string(images))
		state := func(ctx context.Context) (string, error) {
			return l.kubectl(ctx, "-n", namespace, "get", "gardenlet", "orchards", "-o",
				`jsonpath={range .status.conditions[*]}{.type}={.status} {.reason} {.message}{"\n"}{end}`)
		}
		Eventually(ctx, state).WithTimeout(limit).Should(ContainSubstring("SeedRegistered=True Reconciled"))
		Eventually(ctx, state).WithTimeout(limit).Should(ContainSubstring("GardenletReconciled=True Reconciled"), "upgrades itself")
		l.awaitSeed(ctx)
		AddReportEntry("Gardenlet", must(state(ctx)))
	}, SpecTimeout(2*limit))
})

func must(text string, err error) string {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	return text
}

func decode(file string, into any) {
	GinkgoHelper()
	content, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	Expect(yaml.Unmarshal(content, into)).To(Succeed())
}

// encode returns a file with an object.
func encode(object map[string]any) string {
	GinkgoHelper()
	text, err := yaml.Marshal(object)
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(GinkgoT().TempDir(), "object.yaml")
	Expect(os.WriteFile(file, text, 0o600)).To(Succeed())
	return file
}

// awaitSeed waits until the Seed is ready.
func (l localGarden) awaitSeed(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, l.conditions).WithArguments("seed", "", "orchards").WithTimeout(limit).Should(And(
		HaveKeyWithValue("GardenletReady", "True"), HaveKeyWithValue("SeedSystemComponentsHealthy", "True"),
		HaveKeyWithValue("ExtensionsReady", "True"), HaveKeyWithValue("BackupBucketsReady", "True")))
}

// serveChart serves the chart of gardenlet's module at an address of the node. gardenlet does not support the version of the node's control
// plane yet, so the Pod gets another container, as in hack/upgarden/seed/gardenlet.yaml.
func (l localGarden) serveChart(ctx context.Context) *charttest.Registry {
	GinkgoHelper()
	query := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/gardener/gardener")
	query.Dir = filepath.Join(l.machine.Root, "hack", "garden", "gardener")
	output, err := query.Output()
	Expect(err).NotTo(HaveOccurred())
	chart := os.DirFS(filepath.Join(strings.TrimSpace(string(output)), "charts", "gardener", "gardenlet"))
	files := charttest.Files{}
	for _, pattern := range []string{"*.yaml", "templates/*"} {
		matches, failure := fs.Glob(chart, pattern)
		Expect(failure).NotTo(HaveOccurred())
		for _, each := range matches {
			content, failure := fs.ReadFile(chart, each)
			Expect(failure).NotTo(HaveOccurred())
			files[each] = string(content)
		}
	}
	const containers = "      containers:\n      - name: gardenlet\n"
	Expect(files["templates/deployment.yaml"]).To(ContainSubstring(containers))
	files["templates/deployment.yaml"] = strings.Replace(files["templates/deployment.yaml"], containers, `      initContainers:
      - name: versionproxy
        image: {{ include "image" .Values.image }}
        command: [/versionproxy, "127.0.0.1:8001", v1.36.0]
        restartPolicy: Always
        securityContext: {allowPrivilegeEscalation: false}
        volumeMounts:
        - {name: kube-api-access-gardener, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
`+containers, 1)
	listener, err := node.Listen(ctx)
	Expect(err).NotTo(HaveOccurred())
	registry := charttest.NewRegistryAt(GinkgoTB(), listener)
	registry.Push(GinkgoTB(), "v1.149.3", charttest.Archive(GinkgoTB(), files))
	return registry
}

// removeGardenlet deletes the Seed, and then gardenlet with its rights and its kubeconfig.
func (l localGarden) removeGardenlet(ctx context.Context) {
	GinkgoHelper()
	Expect(l.kubectl(ctx, "delete", "seed", "orchards", "--timeout=10m")).Error().NotTo(HaveOccurred())
	Expect(c.Kubectl(ctx, "-n", namespace, "delete", "deployment/gardenlet", "serviceaccount/gardenlet", "secret/gardenlet-kubeconfig")).
		Error().NotTo(HaveOccurred())
	Expect(c.Kubectl(ctx, "delete", "clusterrolebinding", "gardenlet")).Error().NotTo(HaveOccurred())
	Eventually(ctx, c.Kubectl).WithArguments("-n", namespace, "get", "pods", "-l", "role=gardenlet", "-o", "name").WithTimeout(patience).
		Should(BeEmpty())
	Expect(c.Kubectl(ctx, "-n", namespace, "delete", "lease", "gardenlet-leader-election", "--ignore-not-found")).Error().NotTo(HaveOccurred())
}

// gardenletIn returns the image of gardenlet in a list of images.
func gardenletIn(images string) string {
	GinkgoHelper()
	known, err := list.Parse([]byte(images))
	Expect(err).NotTo(HaveOccurred())
	return must(known.Find("gardenlet", list.Cluster{}))
}

// createGardenlet creates the Gardenlet. Its gardenlet connects to the runtime cluster through the additional container.
func (l localGarden) createGardenlet(ctx context.Context, registry *charttest.Registry, config map[string]any, images string) {
	GinkgoHelper()
	virtual, err := l.virtual()
	Expect(err).NotTo(HaveOccurred())
	ca := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "gardenlet-chart-ca", Labels: map[string]string{"gardener.cloud/role": "oci-ca-bundle"},
		},
		Data: map[string][]byte{"bundle.crt": registry.CA()},
	}
	Expect(virtual.Create(ctx, ca)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(virtual.Delete(ctx, ca)).To(Succeed()) }, NodeTimeout(limit))
	const local = "gardenlet-local"
	kubeconfig := filepath.Join(l.machine.Dir, "garden", "gardenlet", "kubeconfig")
	Expect(c.Kubectl(ctx, "-n", namespace, "create", "configmap", local, "--from-file="+kubeconfig)).Error().NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(c.Kubectl(ctx, "-n", namespace, "delete", "configmap", local)).Error().NotTo(HaveOccurred())
	}, NodeTimeout(limit))
	gardenlet := map[string]any{
		"apiVersion": "seedmanagement.gardener.cloud/v1alpha1", "kind": "Gardenlet",
		"metadata": map[string]any{"namespace": namespace, "name": "orchards"},
		"spec": map[string]any{
			"deployment": map[string]any{
				"replicaCount": 1,
				// Without it, gardenlet upgrades itself to the image in the values of the chart.
				"image": map[string]any{"ref": gardenletIn(images)},
				"helm": map[string]any{"ociRepository": map[string]any{
					"ref": registry.Repository() + ":v1.149.3", "caBundleSecretRef": map[string]any{"name": ca.Name},
				}},
				"imageVectorOverwrite": images,
				"env":                  []any{map[string]any{"name": "KUBECONFIG", "value": "/etc/local/kubeconfig"}},
				"additionalVolumes":    []any{map[string]any{"name": "local", "configMap": map[string]any{"name": local}}},
				"additionalVolumeMounts": []any{
					map[string]any{"name": "local", "mountPath": "/etc/local", "readOnly": true},
				},
			},
			"config": config,
		},
	}
	Expect(l.kubectl(ctx, "create", "-f", encode(gardenlet))).Error().NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(l.kubectl(ctx, "-n", namespace, "delete", "gardenlet", "orchards")).Error().NotTo(HaveOccurred())
	}, NodeTimeout(limit))
}
