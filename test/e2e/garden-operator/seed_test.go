//go:build e2e

package gardenoperator_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/local/node"
)

// The Shoot of gardener/workerless.yaml. technicalID is the name of its namespace in the Seed, apiServerName the name of its API server.
const (
	ofShoot       = "garden-plums"
	shoot         = "small"
	technicalID   = "shoot--plums--small"
	apiServerName = "api.small.plums.internal.local.gardener.cloud"
)

var _ = Describe("the Seed of make up-garden SEED=true", Ordered, Label("seed"), func() {
	var l localGarden

	BeforeAll(func(ctx SpecContext) {
		l = requireSeed(ctx)
	}, NodeTimeout(limit))

	It("is ready, with an extension that has access to the garden", func(ctx SpecContext) {
		l.awaitSeed(ctx)
		// provider-local writes this annotation with the kubeconfig that gardenlet has injected.
		Expect(l.kubectl(ctx, "get", "seed", "orchards", "-o", "jsonpath={.metadata.annotations}")).
			To(ContainSubstring("provider-local-e2e-test-garden-access"))
	}, SpecTimeout(limit))

	It("runs a Shoot without workers of a project member, hibernates it, upgrades it, and deletes it without a trace", func(ctx SpecContext) {
		l.createProject(ctx)
		before := l.inSeed(ctx)

		reported := time.Now()
		report := func(what string) {
			AddReportEntry(what+" after", time.Since(reported).Round(time.Second).String())
			reported = time.Now()
		}
		versions := l.shootVersions(ctx)
		l.createShoot(ctx, versions[0])
		report("Shoot created with Kubernetes " + versions[0])

		gateway := &corev1.Service{}
		Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: "istio-ingress", Name: "istio-ingressgateway"}, gateway)).To(Succeed())
		Expect(resolve(ctx, apiServerName)).To(ConsistOf(gateway.Status.LoadBalancer.Ingress[0].IP))
		inShoot := l.kubectlInShoot(ctx)
		Expect(inShoot(ctx, "get", "namespaces", "-o", "name")).To(ContainSubstring("namespace/kube-system"))
		Expect(inShoot(ctx, "create", "configmap", "jam")).To(ContainSubstring("created"))

		l.hibernate(ctx, true)
		report("Shoot hibernated")
		Eventually(ctx, c.Kubectl).WithArguments("-n", technicalID, "get", "pods", "-o", "name").Should(BeEmpty())
		l.hibernate(ctx, false)
		report("Shoot woken")
		Expect(inShoot(ctx, "get", "configmap", "jam", "-o", "name")).To(ContainSubstring("configmap/jam"))
		for _, version := range versions[1:] {
			l.upgradeShoot(ctx, version)
			report("Shoot upgraded to " + version)
			Expect(inShoot(ctx, "version")).To(ContainSubstring("Server Version: v" + version))
			Expect(inShoot(ctx, "get", "configmap", "jam", "-o", "name")).To(ContainSubstring("configmap/jam"))
		}
		l.awaitHealthyShoot(ctx)
		report("healthy")

		l.confirmAndDelete(ctx, "shoot", ofShoot, shoot)
		report("Shoot deleted")
		_, err := c.Kubectl(ctx, "get", "namespace", technicalID)
		Expect(err).To(MatchError(ContainSubstring("not found")))
		Eventually(ctx, l.inSeed).WithTimeout(patience).Should(Equal(before))
		Eventually(ctx, resolve).WithArguments(apiServerName).Should(BeEmpty())
		Eventually(ctx, l.kubectl).WithArguments("-n", ofShoot, "get", "shoots,backupentries,secrets,configmaps", "-o", "name").
			ShouldNot(ContainSubstring(shoot))
		l.confirmAndDelete(ctx, "project", "", "plums")
	}, SpecTimeout(2*limit))
})

// requireSeed skips the spec unless the local garden has a Seed. It returns the garden.
func requireSeed(ctx context.Context) localGarden {
	GinkgoHelper()
	l := requireLocalGarden(ctx)
	seeds, err := l.kubectl(ctx, "get", "seeds", "-o", "name")
	Expect(err).NotTo(HaveOccurred())
	if !strings.Contains(seeds, "seed.core.gardener.cloud/orchards") {
		Skip("SKIPPED: the garden has no Seed; start it with make up-garden SEED=true")
	}
	return l
}

// createProject creates the Project of the Shoot.
func (l localGarden) createProject(ctx context.Context) {
	GinkgoHelper()
	_, err := l.kubectl(ctx, "create", "-f", manifests+"seed-project.yaml")
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, l.kubectl).WithArguments("get", "project", "plums", "-o", "jsonpath={.status.phase}").Should(Equal("Ready"))
}

// shootVersions returns the versions of Kubernetes that Shoots can have, the earliest first: two after `make up-garden KUBERNETES=1.35.…`,
// one otherwise.
func (l localGarden) shootVersions(ctx context.Context) []string {
	GinkgoHelper()
	return strings.Fields(must(l.kubectl(ctx, "get", "cloudprofile", "local", "-o", "jsonpath={.spec.kubernetes.versions[*].version}")))
}

// createShoot creates the Shoot with a version of Kubernetes as a project member, and waits until gardenlet has done so.
func (l localGarden) createShoot(ctx context.Context, version string) {
	GinkgoHelper()
	manifest := map[string]any{}
	decode(filepath.Join(l.machine.Root, manifests, "workerless.yaml"), &manifest)
	Expect(unstructured.SetNestedField(manifest, version, "spec", "kubernetes", "version")).To(Succeed())
	_, err := l.kubectl(ctx, "--as", "alice", "create", "-f", encode(manifest))
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, l.kubectl).WithTimeout(limit).WithArguments("-n", ofShoot, "get", "shoot", shoot, "-o",
		"jsonpath={.status.lastOperation.type} {.status.lastOperation.state}").Should(Equal("Create Succeeded"))
}

// awaitHealthyShoot waits until all conditions of the Shoot are true. The condition of the control plane is true after the first delta
// snapshot of its etcd, which is taken after five minutes.
func (l localGarden) awaitHealthyShoot(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, l.conditions).WithTimeout(limit).WithArguments("shoot", ofShoot, shoot).Should(Equal(map[string]string{
		"APIServerAvailable": "True", "ControlPlaneHealthy": "True", "ObservabilityComponentsHealthy": "True", "SystemComponentsHealthy": "True",
	}))
}

// kubectlInShoot requests a kubeconfig of the Shoot. It returns a function that runs kubectl in the Shoot, through the gateway.
func (l localGarden) kubectlInShoot(ctx context.Context) kubectl {
	GinkgoHelper()
	kubeconfig := l.adminKubeconfig(ctx)
	return func(ctx context.Context, args ...string) (string, error) {
		server := "https://127.0.0.1:" + strconv.Itoa(node.SeedGatewayPort)
		return c.Kubectl(ctx, append([]string{"--kubeconfig", kubeconfig, "--server", server, "--tls-server-name", apiServerName}, args...)...)
	}
}

// hibernate hibernates or wakes the Shoot as a project member, and waits until that is done.
func (l localGarden) hibernate(ctx context.Context, enabled bool) {
	GinkgoHelper()
	text := strconv.FormatBool(enabled)
	_, err := l.kubectl(ctx, "--as", "alice", "-n", ofShoot, "patch", "shoot", shoot, "--type=merge",
		"--patch", `{"spec": {"hibernation": {"enabled": `+text+`}}}`)
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, l.kubectl).WithTimeout(limit).WithArguments("-n", ofShoot, "get", "shoot", shoot, "-o",
		"jsonpath={.status.hibernated} {.status.lastOperation.state}").Should(Equal(text + " Succeeded"))
}

// upgradeShoot gives the Shoot another version of Kubernetes as a project member, and waits until gardenlet has done so.
func (l localGarden) upgradeShoot(ctx context.Context, version string) {
	GinkgoHelper()
	_, err := l.kubectl(ctx, "--as", "alice", "-n", ofShoot, "patch", "shoot", shoot, "--type=merge",
		"--patch", `{"spec": {"kubernetes": {"version": "`+version+`"}}}`)
	Expect(err).NotTo(HaveOccurred())
	generation := must(l.kubectl(ctx, "-n", ofShoot, "get", "shoot", shoot, "-o", "jsonpath={.metadata.generation}"))
	Eventually(ctx, l.kubectl).WithTimeout(limit).WithArguments("-n", ofShoot, "get", "shoot", shoot, "-o",
		"jsonpath={.status.observedGeneration} {.status.lastOperation.state}").Should(Equal(generation + " Succeeded"))
}

// conditions returns the conditions of an object in the virtual cluster.
func (l localGarden) conditions(ctx context.Context, kind, in, name string) (map[string]string, error) {
	text, err := l.kubectl(ctx, "-n", in, "get", kind, name, "-o", "jsonpath={range .status.conditions[*]}{.type}={.status} {end}")
	found := map[string]string{}
	for field := range strings.FieldsSeq(text) {
		name, status, _ := strings.Cut(field, "=")
		found[name] = status
	}
	return found, err
}

// inSeed returns the names of the objects in the runtime cluster that a Shoot could leave behind.
func (l localGarden) inSeed(ctx context.Context) []string {
	GinkgoHelper()
	text, err := c.Kubectl(ctx, "get", "namespaces,persistentvolumes,managedresources.resources.gardener.cloud,"+
		"clusters.extensions.gardener.cloud,dnsrecords.extensions.gardener.cloud,backupentries.extensions.gardener.cloud,"+
		"extensions.extensions.gardener.cloud,gateways.networking.istio.io,envoyfilters.networking.istio.io,"+
		"clusterroles,clusterrolebindings", "--all-namespaces", "-o", "name")
	Expect(err).NotTo(HaveOccurred())
	return strings.Fields(text)
}

// resolve returns the addresses of a name from the DNS server of the Seed; none if the name does not exist.
func resolve(ctx context.Context, name string) ([]string, error) {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return node.Dial(ctx, network, "10.250.0.1:53")
	}}
	addresses, err := resolver.LookupHost(ctx, name)
	if missing := (&net.DNSError{}); errors.As(err, &missing) && missing.IsNotFound {
		return nil, nil
	}
	return addresses, err
}

// adminKubeconfig returns a file with a kubeconfig of the Shoot that a project member requests.
func (l localGarden) adminKubeconfig(ctx context.Context) string {
	GinkgoHelper()
	answer, err := l.kubectl(ctx, "--as", "alice", "create", "-f", manifests+"adminkubeconfig.json", "--raw",
		"/apis/core.gardener.cloud/v1beta1/namespaces/"+ofShoot+"/shoots/"+shoot+"/adminkubeconfig")
	Expect(err).NotTo(HaveOccurred())
	var request struct {
		Status struct{ Kubeconfig string }
	}
	Expect(json.Unmarshal([]byte(answer), &request)).To(Succeed())
	kubeconfig, err := base64.StdEncoding.DecodeString(request.Status.Kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(file, kubeconfig, 0o600)).To(Succeed())
	return file
}
