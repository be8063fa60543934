//go:build e2e

package gardenoperator_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/test/local"
)

// projectConfig is the configuration of project-controller.
const projectConfig = `apiVersion: controllermanager.config.gardener.cloud/v1alpha1
kind: ControllerManagerConfiguration
leaderElection: {resourceNamespace: espalier-system}
server: {healthProbes: {bindAddress: 127.0.0.1}, metrics: {bindAddress: 127.0.0.1}}
espalier: {project: {staleDeletion: DryRun}}
`

var _ = Describe("project-controller in the virtual cluster of make up-garden", Ordered, Label("garden"), func() {
	var l localGarden

	BeforeAll(func(ctx SpecContext) {
		l = requireLocalGarden(ctx)
		DeferCleanup(func(ctx SpecContext) { l.setProjectController(ctx, false) }, NodeTimeout(limit))
		l.setProjectController(ctx, true)
		l.startProjectController(ctx)
	}, NodeTimeout(limit))

	It("reconciles Projects in place of gardener-controller-manager", func(ctx SpecContext) {
		_, err := l.kubectl(ctx, "create", "-f", manifests+"other-project.yaml")
		Expect(err).NotTo(HaveOccurred())
		get := func(ctx context.Context, path string) (string, error) {
			return l.kubectl(ctx, "get", "project", "pears", "--show-managed-fields", "-o", "jsonpath={"+path+"}")
		}
		Eventually(ctx, get).WithArguments(".status.phase").Should(Equal("Ready"))
		Expect(get(ctx, `.metadata.managedFields[?(@.subresource=="status")].manager`)).To(Equal("espalier-project-controller"))
		version, err := get(ctx, ".metadata.resourceVersion")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, refusals).Should(BeNumerically(">", 0))
		Consistently(ctx, get).WithArguments(".metadata.resourceVersion").WithTimeout(10 * time.Second).Should(Equal(version))

		l.confirmAndDelete(ctx, "project", "", "pears")
		_, err = l.kubectl(ctx, "get", "namespace", "garden-pears")
		Expect(err).To(MatchError(ContainSubstring("not found")))
	}, SpecTimeout(limit))
})

// refusals returns the number of messages in the logs of gardener-controller-manager that contain the policy and the Project.
func refusals(ctx context.Context) (int, error) {
	number := 0
	pods := &corev1.PodList{}
	selected := client.MatchingLabels{"app": "gardener", "role": "controller-manager"}
	if err := c.Client.List(ctx, pods, client.InNamespace(namespace), selected); err != nil {
		return 0, err
	}
	for _, each := range pods.Items {
		log, err := c.Kubectl(ctx, "-n", namespace, "logs", each.Name)
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(log) {
			if strings.Contains(line, "project-controller.espalier.dev") && strings.Contains(line, "pears") {
				number++
			}
		}
	}
	return number, nil
}

// setProjectController changes a setting in the configuration of the operator, and requests a reconciliation of the Garden.
func (l localGarden) setProjectController(ctx context.Context, on bool) {
	GinkgoHelper()
	var value any // without the field, the operator deploys no project-controller
	if on {
		value = true
	}
	configureOperator(ctx, "projectController", value)
	Expect(l.reconcile(ctx)).To(Succeed())
	Eventually(ctx, l.well).WithTimeout(recoveryPatience).Should(Succeed())
	Eventually(ctx, l.kubectl).WithArguments("get", "validatingadmissionpolicies", "-o", "name").
		Should(WithTransform(func(all string) bool { return strings.Contains(all, "project-controller.espalier.dev") }, Equal(on)))
}

// configureOperator sets a field of section espalier.garden in the configuration of the operator; nil removes it.
func configureOperator(ctx context.Context, field string, value any) {
	GinkgoHelper()
	configuration, settings := &corev1.ConfigMap{}, map[string]any{}
	Expect(c.Client.Get(ctx, operatorKey, configuration)).To(Succeed())
	Expect(yaml.Unmarshal([]byte(configuration.Data["config.yaml"]), &settings)).To(Succeed())
	path := []string{"espalier", "garden", field}
	if value == nil {
		unstructured.RemoveNestedField(settings, path...)
	} else {
		Expect(unstructured.SetNestedField(settings, value, path...)).To(Succeed())
	}
	text, err := yaml.Marshal(settings)
	Expect(err).NotTo(HaveOccurred())
	configuration.Data["config.yaml"] = string(text)
	Expect(c.Client.Update(ctx, configuration)).To(Succeed())
	_, err = c.Kubectl(ctx, "-n", operatorKey.Namespace, "rollout", "restart", "deployment", operatorKey.Name)
	Expect(err).NotTo(HaveOccurred())
	Expect(c.RolledOut(ctx, binary)).To(Succeed())
}

// startProjectController starts project-controller as a process of this machine, with the shipped rights in the virtual cluster. It stops
// at the end of the specs.
func (l localGarden) startProjectController(ctx context.Context) {
	GinkgoHelper()
	const in, name = "espalier-system", "espalier-project-controller"
	folder := GinkgoT().TempDir()
	program := filepath.Join(folder, "project-controller")
	Expect(local.Compile(ctx, program, "./cmd/project-controller")).To(Succeed())

	_, err := l.kubectl(ctx, "create", "namespace", in)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(l.kubectl(ctx, "delete", "namespace", in)).Error().NotTo(HaveOccurred())
	}, NodeTimeout(limit))
	_, err = l.kubectl(ctx, "create", "serviceaccount", "-n", in, name)
	Expect(err).NotTo(HaveOccurred())
	for _, each := range []string{"rbac/role.yaml", "base/clusterrolebinding.yaml", "base/rolebinding.yaml"} {
		file := filepath.Join(l.machine.Root, "deploy", "project-controller", each)
		_, err = l.kubectl(ctx, "apply", "-f", file)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(l.kubectl(ctx, "delete", "--ignore-not-found", "-f", file)).Error().NotTo(HaveOccurred())
		}, NodeTimeout(limit))
	}
	admin, err := clientcmd.BuildConfigFromFlags("", l.kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := local.ServiceAccountKubeconfig(ctx, admin, in, name, time.Hour)
	Expect(err).NotTo(HaveOccurred())
	for file, content := range map[string][]byte{"kubeconfig": kubeconfig, "config.yaml": []byte(projectConfig)} {
		Expect(os.WriteFile(filepath.Join(folder, file), content, 0o600)).To(Succeed())
	}

	process := exec.Command(program, "--config="+filepath.Join(folder, "config.yaml")) // it runs longer than this step
	process.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(folder, "kubeconfig"), "POD_NAMESPACE="+in)
	process.Stdout, process.Stderr = GinkgoWriter, GinkgoWriter
	Expect(process.Start()).To(Succeed())
	DeferCleanup(func() {
		Expect(process.Process.Signal(syscall.SIGTERM)).To(Succeed())
		_ = process.Wait() // waits until the process has released its lease
	})
}
