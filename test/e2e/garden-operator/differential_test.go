//go:build e2e

package gardenoperator_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/test/e2e/cluster"
	"github.com/espalier-dev/espalier/test/e2e/compare"
)

const (
	registration = "differential"
	differential = "gardener/differential/"
	// replacesGardenlet is the binary that installs extensions, tokenControllers the one that keeps their tokens.
	replacesGardenlet = "extension-controller"
	tokenControllers  = "token-controllers"
)

// kubectl runs kubectl in one of the clusters.
type kubectl func(ctx context.Context, args ...string) (string, error)

var _ = Describe("extension-controller in the place of the gardenlet of make up-garden SEED=true", Ordered, Label("differential"), func() {
	var l localGarden

	BeforeAll(func(ctx SpecContext) { l = requireSeed(ctx) }, NodeTimeout(limit))

	It("installs the same objects as gardenlet", func(ctx SpecContext) {
		gardener := l.objectsOfInstallation(ctx)
		l.replaceGardenlet(ctx)
		espalier := l.objectsOfInstallation(ctx)
		Expect(gardener).NotTo(BeEmpty())
		Expect(compare.Check(compare.Differences(gardener, espalier), differential+"differences.yaml",
			filepath.Join(l.machine.Dir, "..", "e2e", "differential.yaml"))).To(Succeed())
	}, SpecTimeout(2*limit))
})

// objectsOfInstallation registers an extension and removes it again. It returns the objects that are installed for it.
func (l localGarden) objectsOfInstallation(ctx context.Context) compare.Objects {
	GinkgoHelper()
	l.register(ctx)
	begin := time.Now()
	name := ""
	Eventually(ctx, func(ctx context.Context) (map[string]string, error) {
		found, err := l.kubectl(ctx, "get", "controllerinstallations", "-o",
			`jsonpath={.items[?(@.spec.registrationRef.name=="`+registration+`")].metadata.name}`)
		if err != nil || found == "" {
			return nil, err
		}
		name = found
		return l.conditions(ctx, "controllerinstallation", "", name)
	}).WithTimeout(patience).Should(Equal(map[string]string{
		"Valid": "True", "Installed": "True", "Healthy": "True", "Progressing": "False", "Required": "False",
	}))
	AddReportEntry("installed after", time.Since(begin).Round(time.Second).String())
	var all compare.Objects
	Eventually(ctx, func(g Gomega, ctx context.Context) { all = l.objectsOf(ctx, g, name) }).WithTimeout(patience).Should(Succeed())

	begin = time.Now()
	_, err := l.kubectl(ctx, "delete", "controllerregistration/"+registration, "controllerdeployment/"+registration)
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, l.kubectl).WithArguments("get", "controllerinstallations", "-o", "name").WithTimeout(patience).
		ShouldNot(ContainSubstring(name))
	AddReportEntry("removed after", time.Since(begin).Round(time.Second).String())
	Expect(c.Kubectl(ctx, "get", "namespaces,clusterroles,managedresources", "--all-namespaces", "-o", "name")).
		NotTo(ContainSubstring(registration))
	return all
}

// register creates the registration of the extension, with its chart.
func (l localGarden) register(ctx context.Context) {
	GinkgoHelper()
	chart, err := exec.CommandContext(ctx, "tar", "-C", differential, "-czf", "-", "chart").Output()
	Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(differential + "registration.yaml")
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(GinkgoT().TempDir(), "registration.yaml")
	text = []byte(strings.ReplaceAll(string(text), "$CHART", base64.StdEncoding.EncodeToString(chart)))
	Expect(os.WriteFile(file, text, 0o600)).To(Succeed())
	_, err = l.kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", file)
	Expect(err).NotTo(HaveOccurred())
}

// objectsOf returns the objects of a ControllerInstallation, in both clusters. It fails until the extension has a token.
func (l localGarden) objectsOf(ctx context.Context, g Gomega, name string) compare.Objects {
	all := compare.Objects{}
	names := map[string]string{name: registration + "-<name>"}
	inside := "extension-" + name
	get := func(in kubectl, namespace, kind, name string) *unstructured.Unstructured {
		o := read(ctx, g, in, namespace, kind, name)
		all.Add(o, names)
		return o
	}
	get(l.kubectl, "", "controllerinstallation", name)
	get(l.kubectl, "seed-orchards", "serviceaccount", inside)
	get(c.Kubectl, "", "namespace", inside)
	set := get(c.Kubectl, namespace, "managedresource", name)
	refs, _, err := unstructured.NestedSlice(set.Object, "spec", "secretRefs")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(refs).NotTo(BeEmpty())
	for _, each := range refs {
		ref, _ := each.(map[string]any)
		secret, _ := ref["name"].(string)
		get(c.Kubectl, namespace, "secret", secret)
	}
	applied, _, err := unstructured.NestedSlice(set.Object, "status", "resources")
	g.Expect(err).NotTo(HaveOccurred())
	for _, each := range applied {
		o := &unstructured.Unstructured{}
		o.Object, _ = each.(map[string]any)
		in, _ := o.Object["namespace"].(string)
		object, _ := o.Object["name"].(string)
		gvk := o.GroupVersionKind()
		get(c.Kubectl, in, kindArgument(gvk.Kind, gvk.Version, gvk.Group), object)
	}
	secrets, err := c.Kubectl(ctx, "-n", inside, "get", "secrets", "-l", "!"+resourcesv1alpha1.ManagedBy, "-o",
		"jsonpath={.items[*].metadata.name}")
	g.Expect(err).NotTo(HaveOccurred())
	for secret := range strings.FieldsSeq(secrets) {
		if o := get(c.Kubectl, inside, "secret", secret); secret == "garden-access-extension" {
			data, _, _ := unstructured.NestedMap(o.Object, "data")
			g.Expect(data).To(HaveKey("token"))
		}
	}
	return all
}

// replaceGardenlet stops gardenlet, and deploys extension-controller with the file of gardenlet, and token-controllers. At the end of the
// spec it undoes this.
func (l localGarden) replaceGardenlet(ctx context.Context) {
	GinkgoHelper()
	_, err := c.Kubectl(ctx, "-n", namespace, "scale", "deployment/gardenlet", "--replicas=0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(c.Remove(ctx, replacesGardenlet, tokenControllers)).To(Succeed())
		Expect(c.Kubectl(ctx, "-n", namespace, "scale", "deployment/gardenlet", "--replicas=1")).To(ContainSubstring("scaled"))
		Eventually(ctx, l.conditions).WithArguments("seed", "", "orchards").WithTimeout(patience).Should(
			HaveKeyWithValue("GardenletReady", "True"))
	}, NodeTimeout(limit))
	Eventually(ctx, c.Kubectl).WithArguments("-n", namespace, "get", "pods", "-l", "role=gardenlet", "-o", "name").WithTimeout(patience).
		Should(BeEmpty())
	// The replicas of gardenlet's Deployment do not wait for these leases to expire, and neither does the spec.
	_, err = c.Kubectl(ctx, "-n", namespace, "delete", "lease", "gardenlet-leader-election", "--ignore-not-found")
	Expect(err).NotTo(HaveOccurred())
	_, err = l.kubectl(ctx, "-n", "gardener-system-seed-lease", "delete", "lease", "orchards", "--ignore-not-found")
	Expect(err).NotTo(HaveOccurred())

	gardenlet, err := c.Kubectl(ctx, "-n", namespace, "get", "configmap", l.gardenletConfig(ctx), "-o", `jsonpath={.data.config\.yaml}`)
	Expect(err).NotTo(HaveOccurred())
	Expect(c.Configure(ctx, replacesGardenlet, gardenlet+`
leaderElection: {resourceNamespace: espalier-system}
espalier:
  extension:
    chartPolicy: {hostAccess: true, clusterRoles: [cluster-admin]} # of provider-local
`)).To(Succeed())
	l.deployTokenControllers(ctx)
}

// deployTokenControllers deploys token-controllers with the settings and the credentials of gardenlet.
func (l localGarden) deployTokenControllers(ctx context.Context) {
	GinkgoHelper()
	encoded, err := c.Kubectl(ctx, "-n", namespace, "get", "secret", "gardenlet-kubeconfig", "-o", "jsonpath={.data.kubeconfig}")
	Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := base64.StdEncoding.DecodeString(encoded)
	Expect(err).NotTo(HaveOccurred())
	// The Pod mounts the ConfigMap with its configuration as a folder.
	credentials, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"kubeconfig": string(kubeconfig)},
		"metadata": map[string]any{"namespace": cluster.SystemNamespace, "name": "espalier-" + tokenControllers},
	})
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(GinkgoT().TempDir(), "credentials.json")
	Expect(os.WriteFile(file, credentials, 0o600)).To(Succeed())
	_, err = c.Kubectl(ctx, "apply", "--server-side", "--field-manager=credentials", "-f", file)
	Expect(err).NotTo(HaveOccurred())
	Expect(c.Configure(ctx, tokenControllers, `apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
targetClientConnection: {kubeconfig: /etc/espalier/kubeconfig}
leaderElection: {resourceNamespace: espalier-system}
controllers:
  tokenRequestor: {enabled: true}
espalier:
  token: {class: garden, targetNamespace: seed-orchards, audiences: []}
`)).To(Succeed())
}
