//go:build e2e

package gardenoperator_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

const (
	// today is the file with a Garden that has the fields of today's releases of Gardener, and its Secrets.
	today = "internal/garden/lifecycle/testdata/today.yaml"
	// virtualDomain and ingressDomain are the domains of this Garden here, in the zone of the DNS server of the node.
	virtualDomain = "virtual.cases.local.gardener.cloud"
	ingressDomain = "runtime.cases.local.gardener.cloud"
)

// The Garden with its Seed is deleted, and one with DNS records and a bucket of an Extension takes its place. The spec leaves a cluster
// without a Garden: `make up-garden SEED=true` creates them again.
var _ = Describe("a Garden with objects of extensions in the place of that of make up-garden SEED=true", Ordered, Label("today"), func() {
	It("is reconciled with an Extension of provider-local, and is deleted with its bucket", func(ctx SpecContext) {
		l := requireSeed(ctx)
		values := l.providerValues(ctx)
		former := &operatorv1alpha1.Garden{}
		Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(l.garden), former)).To(Succeed())
		l.removeGardenlet(ctx)
		remove(ctx, former.DeepCopy())
		Expect(c.Client.DeleteAllOf(ctx, &corev1.PersistentVolumeClaim{}, client.InNamespace(namespace))).To(Succeed())
		// The chart of provider-local needs it.
		configureOperator(ctx, "extensionCharts", map[string]any{"hostAccess": true, "clusterRoles": []any{"cluster-admin"}})
		DeferCleanup(func(ctx SpecContext) { configureOperator(ctx, "extensionCharts", nil) })
		begin := time.Now()
		report := func(what string) {
			AddReportEntry(what+" after", time.Since(begin).Round(time.Second).String())
			begin = time.Now()
		}

		Expect(c.Kubectl(ctx, "create", "-f", encode(l.providerExtension(ctx, values)))).Error().NotTo(HaveOccurred())
		garden := l.createToday(ctx, former)
		l = localGarden{machine: l.machine, garden: garden, kubeconfig: l.kubeconfig}
		Eventually(ctx, l.well).WithTimeout(2 * limit).Should(Succeed())
		Eventually(ctx, l.healthy).WithTimeout(recoveryPatience).Should(Succeed())
		report("Garden reconciled")
		gateway := &corev1.Service{}
		key := client.ObjectKey{Namespace: "virtual-garden-istio-ingress", Name: "istio-ingressgateway"}
		Expect(c.Client.Get(ctx, key, gateway)).To(Succeed())
		for _, host := range []string{"api." + virtualDomain, "gardener." + virtualDomain, "any." + ingressDomain} {
			Expect(resolve(ctx, host)).To(ConsistOf(gateway.Status.LoadBalancer.Ingress[0].IP), host)
		}
		bucket := "garden-" + string(garden.UID)
		Eventually(filepath.Glob).WithContext(ctx).WithArguments(filepath.Join(values["backups"], bucket, "*")).WithTimeout(patience).
			ShouldNot(BeEmpty(), "snapshots")
		Expect(c.Kubectl(ctx, "get", "extop", "provider-local", "-o",
			`jsonpath={range .status.conditions[*]}{.type}={.status} {end}`)).To(And(
			ContainSubstring("Installed=True"), ContainSubstring("RequiredRuntime=True")))

		begin = time.Now()
		Expect(c.Kubectl(ctx, "annotate", "garden", garden.Name, operatorv1alpha1.AnnotationConfirmLostBackups+"="+bucket)).
			Error().NotTo(HaveOccurred())
		remove(ctx, garden)
		report("Garden deleted")
		Expect(filepath.Join(values["backups"], bucket)).NotTo(BeADirectory())
		Eventually(ctx, resolve).WithArguments("api." + virtualDomain).Should(BeEmpty())
		Expect(c.Kubectl(ctx, "delete", "extop", "provider-local", "--timeout=5m")).Error().NotTo(HaveOccurred())
		Expect(c.Kubectl(ctx, "get", "namespaces,clusterrolebindings", "-o", "name")).NotTo(ContainSubstring("provider-local"))
	}, SpecTimeout(4*limit))
})

// providerValues returns the values with which provider-local is installed in the Seed: its image and the folder of backups.
func (l localGarden) providerValues(ctx context.Context) map[string]string {
	GinkgoHelper()
	text := must(l.kubectl(ctx, "get", "controllerdeployment.v1.core.gardener.cloud", "provider-local", "-o", "jsonpath={.helm.values}"))
	values := map[string]string{}
	Expect(json.Unmarshal([]byte(text), &values)).To(Succeed())
	Expect(values).To(And(HaveKey("image"), HaveKey("backups")))
	return values
}

// providerExtension returns an Extension that installs provider-local in the runtime cluster, with the chart of `make up-garden`.
func (l localGarden) providerExtension(ctx context.Context, values map[string]string) map[string]any {
	GinkgoHelper()
	folder := filepath.Join(l.machine.Root, "hack", "upgarden", "seed")
	chart, err := exec.CommandContext(ctx, "tar", "-C", folder, "-czf", "-", "provider-local").Output()
	Expect(err).NotTo(HaveOccurred())
	return map[string]any{
		"apiVersion": "operator.gardener.cloud/v1alpha1", "kind": "Extension",
		"metadata": map[string]any{
			"name":        "provider-local",
			"annotations": map[string]any{operatorv1alpha1.AnnotationPodSecurityEnforce: "privileged"},
		},
		"spec": map[string]any{
			"resources": []any{
				map[string]any{"kind": "BackupBucket", "type": "local"},
				map[string]any{"kind": "BackupEntry", "type": "local"},
				map[string]any{"kind": "DNSRecord", "type": "local"},
			},
			"deployment": map[string]any{"extension": map[string]any{
				"helm": map[string]any{"rawChart": base64.StdEncoding.EncodeToString(chart)}, "runtimeClusterValues": values,
			}},
		},
	}
}

// createToday creates the Garden of the file with networks, zones and version of the former one, and with names in the zone of the DNS
// server.
func (l localGarden) createToday(ctx context.Context, former *operatorv1alpha1.Garden) *operatorv1alpha1.Garden {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(l.machine.Root, today))
	Expect(err).NotTo(HaveOccurred())
	domains := strings.NewReplacer("virtual.cases.example.com", virtualDomain, "runtime.cases.example.com", ingressDomain)
	text := domains.Replace(string(content))
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), len(text))
	garden := &operatorv1alpha1.Garden{}
	for {
		o := &unstructured.Unstructured{}
		err := documents.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		Expect(err).NotTo(HaveOccurred())
		if o.GetKind() == "Garden" {
			networks := former.Spec.RuntimeCluster.Networking
			for field, ranges := range map[string][]string{"nodes": networks.Nodes, "pods": networks.Pods, "services": networks.Services} {
				Expect(unstructured.SetNestedStringSlice(o.Object, ranges, "spec", "runtimeCluster", "networking", field)).To(Succeed())
			}
			unstructured.RemoveNestedField(o.Object, "spec", "runtimeCluster", "provider", "zones") // the node has no zone
			Expect(unstructured.SetNestedField(o.Object, former.Spec.VirtualCluster.Kubernetes.Version, "spec", "virtualCluster", "kubernetes",
				"version")).To(Succeed())
			garden.Name = o.GetName()
		}
		Expect(c.Kubectl(ctx, "apply", "-f", encode(o.Object))).Error().NotTo(HaveOccurred())
	}
	Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(garden), garden)).To(Succeed())
	return garden
}
