package together_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/chart/charttest"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/extension"
	"github.com/espalier-dev/espalier/internal/kubectl"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/test/binary"
)

// installed is a cluster of a Seed that is also its garden. extension-controller installs the extension shop in it, and
// managedresource-controller applies the chart.
type installed struct {
	*managedresourcetest.Env
	garden client.Client
}

const (
	gardenNamespace = "garden"
	shop            = "shop"
	// objectsOfShop describe the Seed and the extension. The ControllerDeployment is not among them.
	objectsOfShop = `
apiVersion: v1
kind: ConfigMap
metadata: {name: cluster-identity, namespace: kube-system}
data: {cluster-identity: eden}
---
apiVersion: core.gardener.cloud/v1beta1
kind: Seed
metadata: {name: south}
spec:
  provider: {type: local, region: here}
  networks: {pods: 10.0.0.0/16}
---
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata: {name: shop}
spec: {resources: [{kind: DNSRecord, type: shop}]}
---
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerInstallation
metadata: {name: shop}
spec: {registrationRef: {name: shop}, seedRef: {name: south}, deploymentRef: {name: shop}}
`
)

func newInstalled(t *testing.T) installed {
	t.Helper()
	i := installed{Env: managedresourcetest.New(t, managedresourcetest.Options{
		Config: "controllers: {resourceClass: seed}\n", EverySourceNamespace: true,
	})}
	var err error
	i.garden, err = client.New(i.Servers.Source.Config, client.Options{Scheme: extension.Scheme()})
	i.Expect(err).NotTo(HaveOccurred())
	_, err = binary.Install(i.Ctx, i.garden, "deploy/project-controller/crds/core.gardener.cloud_*.yaml")
	i.Expect(err).NotTo(HaveOccurred())
	for _, list := range []client.ObjectList{
		&corev1beta1.SeedList{}, &corev1beta1.ControllerInstallationList{}, &corev1beta1.ControllerDeploymentList{},
		&corev1beta1.ControllerRegistrationList{},
	} {
		i.Eventually(func() error { return i.garden.List(i.Ctx, list) }, binary.Patience).Should(Succeed())
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gardenNamespace}}
	i.Expect(client.IgnoreAlreadyExists(i.garden.Create(i.Ctx, namespace))).To(Succeed())
	for text := range strings.SplitSeq(objectsOfShop, "---\n") {
		o := &unstructured.Unstructured{}
		i.Expect(yaml.Unmarshal([]byte(text), &o.Object)).To(Succeed())
		i.Expect(i.garden.Create(i.Ctx, o)).To(Succeed())
	}
	i.merge(&corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "south"}}, `{"status":{"clusterIdentity":"eden-south"}}`, "status")
	i.runExtensionController()
	return i
}

// runExtensionController runs extension-controller with the shipped roles until the test ends.
func (i installed) runExtensionController() {
	i.T.Helper()
	kubeconfig, err := binary.Identity(
		i.Ctx, i.garden, i.Servers.Source.Config, "extension-controller", i.Namespace, binary.Source, binary.Target)
	i.Expect(err).NotTo(HaveOccurred())
	settings := extension.Settings{
		SeedName: "south", GardenerVersion: "1.149.3", Garden: &rest.Config{Host: "https://garden.example.org"}, Sandbox: chart.NewSandbox(),
		CareSyncPeriod: time.Hour,
	}
	charttest.Ease(&settings.Sandbox.Memory, &settings.Sandbox.Time)
	connection := config.ClientConnection{Kubeconfig: binary.WriteKubeconfig(i.T, kubeconfig)}
	second := metav1.Duration{Duration: time.Second}
	runner := &binary.Runner{
		Test: i.T,
		Setup: func() *process.Setup {
			return &process.Setup{
				Program: process.Program{Name: "extension-controller", Source: "seed"},
				Config: config.Process{
					Source: connection, Target: &connection, CacheSyncTimeout: binary.Patience,
					LeaderElection: config.LeaderElection{LeaderElect: ptr.To(false), LeaseDuration: second, RenewDeadline: second, RetryPeriod: second},
				},
			}
		},
		Needs: func() (process.Needs, error) { return extension.Needs(settings), nil },
		Add: func(_ context.Context, clusters *process.Clusters) error {
			return extension.Add(extension.Clusters{
				Seed: clusters.Source, Garden: clusters.Target, FieldManager: "espalier-extension-controller", Clock: clock.RealClock{},
			}, settings, prometheus.NewRegistry())
		},
	}
	runner.Start()
	i.T.Cleanup(runner.Stop)
}

// merge sends a merge patch for an object, or for a subresource of it.
func (i installed) merge(o client.Object, patch string, subresource ...string) {
	i.T.Helper()
	raw := client.RawPatch("application/merge-patch+json", []byte(patch))
	if len(subresource) > 0 {
		i.Expect(i.garden.SubResource(subresource[0]).Patch(i.Ctx, o, raw)).To(Succeed())
		return
	}
	i.Expect(i.garden.Patch(i.Ctx, o, raw)).To(Succeed())
}

// deploy gives the extension a chart with a ConfigMap, and changes its installation as gardener-controller-manager does.
func (i installed) deploy(colour string) {
	i.T.Helper()
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: paint, namespace: {{ .Release.Namespace }}}\ndata: {colour: " + colour + "}\n"
	packed := base64.StdEncoding.EncodeToString(charttest.Archive(i.T, charttest.Files{"templates/paint.yaml": text}))
	deployment := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerDeployment", "metadata": map[string]any{"name": shop},
		"type": "helm", "providerConfig": map[string]any{"chart": packed},
	}}
	i.Expect(i.garden.Apply(i.Ctx, client.ApplyConfigurationFromUnstructured(deployment), client.FieldOwner("test"), client.ForceOwnership)).
		To(Succeed())
	i.merge(installationOfShop(), `{"spec":{"deploymentRef":{"resourceVersion":"`+colour+`"}}}`)
}

func installationOfShop() *corev1beta1.ControllerInstallation {
	return &corev1beta1.ControllerInstallation{ObjectMeta: metav1.ObjectMeta{Name: shop}}
}

// colour returns the colour that is applied.
func (i installed) colour() (string, error) {
	paint := &corev1.ConfigMap{}
	err := i.garden.Get(i.Ctx, client.ObjectKey{Namespace: "extension-" + shop, Name: "paint"}, paint)
	return paint.Data["colour"], err
}

// plan returns the output of kubectl espalier plan for the ManagedResource of the extension.
func (i installed) plan() (string, error) {
	var out bytes.Buffer
	command := kubectl.Command(kubectl.Options{
		Out: &out, Err: &out, Clock: clock.RealClock{},
		GardenCommands: func(clientcmd.ClientConfig) []*cobra.Command { return nil },
	})
	command.SetArgs([]string{"plan", shop, "-n", gardenNamespace, "--kubeconfig", binary.WriteKubeconfig(i.T, i.Servers.Source.Kubeconfig)})
	err := command.ExecuteContext(i.Ctx)
	return out.String(), err
}

// docs/controllerinstallations.md describes the steps.
func TestChangeOfAnExtensionIsPlannedBeforeItIsApplied(t *testing.T) {
	i := newInstalled(t)
	i.deploy("red")
	i.Eventually(i.colour, binary.Patience).Should(Equal("red"))

	i.merge(installationOfShop(), `{"metadata":{"annotations":{"espalier.dev/plan":"true"}}}`)
	i.deploy("green")
	i.Eventually(i.plan, binary.Patience).Should(And(
		ContainSubstring("change v1 ConfigMap extension-shop/paint"), ContainSubstring("~ data.colour: changed")))
	i.Expect(i.colour()).To(Equal("red"))

	i.merge(installationOfShop(), `{"metadata":{"annotations":{"espalier.dev/plan":null}}}`)
	i.Eventually(i.colour, binary.Patience).Should(Equal("green"))
}
