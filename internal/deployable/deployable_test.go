package deployable_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/test/local"
)

func root(t *testing.T) string {
	t.Helper()
	folder, err := local.RepositoryRoot()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return folder
}

func TestEveryBinaryIsDeployable(t *testing.T) {
	g := NewWithT(t)
	entries, err := os.ReadDir(filepath.Join(root(t), "cmd"))
	g.Expect(err).NotTo(HaveOccurred())
	var built, declared []string
	for _, each := range entries {
		if each.Name() != "kubectl-espalier" { // a tool of users, which runs in no cluster
			built = append(built, each.Name())
		}
	}
	for _, each := range deployable.All() {
		declared = append(declared, each.Name)
	}
	g.Expect(declared).To(Equal(built))
}

func TestConfigurationsAreValidWithoutWarning(t *testing.T) {
	for _, each := range deployable.All() {
		t.Run(each.Name, func(t *testing.T) {
			g := NewWithT(t)
			if each.Name == "project-controller" {
				c, warnings, err := config.ControllerManager([]byte(each.Config))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(warnings).To(BeEmpty())
				g.Expect(c.Validate()).To(BeEmpty())
				g.Expect([]int{c.Server.HealthProbes.Port, c.Server.Metrics.Port, c.Espalier.Project.Webhooks.Port}).
					To(Equal([]int{int(each.ProbePort), int(each.MetricsPort), int(each.WebhookPort)}))
				return
			}
			if each.Name == "garden-operator" {
				c, warnings, err := config.Operator([]byte(each.Config))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(warnings).To(BeEmpty())
				g.Expect(c.Validate()).To(BeEmpty())
				g.Expect([]int{c.Server.HealthProbes.Port, c.Server.Metrics.Port, c.Server.Webhooks.Port}).
					To(Equal([]int{int(each.ProbePort), int(each.MetricsPort), int(each.WebhookPort)}))
				return
			}
			if each.Name == "extension-controller" {
				c, warnings, err := config.Gardenlet([]byte(each.Config))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(warnings).To(BeEmpty())
				g.Expect(c.Validate()).To(BeEmpty())
				g.Expect([]int{c.Server.HealthProbes.Port, c.Server.Metrics.Port}).To(Equal([]int{int(each.ProbePort), int(each.MetricsPort)}))
				return
			}
			c, warnings, err := config.ResourceManager([]byte(each.Config))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(warnings).To(BeEmpty())
			g.Expect(c.Validate()).To(BeEmpty())
			g.Expect([]int{c.Server.HealthProbes.Port, c.Server.Metrics.Port}).To(Equal([]int{int(each.ProbePort), int(each.MetricsPort)}))
			if each.WebhookPort != 0 {
				g.Expect(c.Server.Webhooks.Port).To(Equal(int(each.WebhookPort)))
			}
		})
	}
}

// TestConfigurationsForTwoClustersNameTheMountedKubeconfig requires that every configuration but one is complete. The configuration of
// webhook-server lacks its address, which only the user who installs it knows: the server does not start, and registers no webhooks that
// cannot be reached.
func TestConfigurationsForTwoClustersNameTheMountedKubeconfig(t *testing.T) {
	for _, each := range deployable.All() {
		if !each.HasTarget() {
			continue
		}
		t.Run(each.Name, func(t *testing.T) {
			g := NewWithT(t)
			apart, warnings, err := config.ResourceManager([]byte(each.ConfigApart))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(warnings).To(BeEmpty())
			g.Expect(apart.TargetClientConnection).NotTo(BeNil())
			g.Expect(apart.TargetClientConnection.Kubeconfig).To(Equal("/var/run/espalier/target/kubeconfig"))
			mistakes := apart.Validate()
			if each.Name == "webhook-server" {
				g.Expect(mistakes).To(ConsistOf(MatchError(ContainSubstring("espalier.webhooks.selfManaged.url: Invalid value"))))
				apart.Espalier.Webhooks.SelfManaged.URL = ""
				mistakes = apart.Validate()
			}
			g.Expect(mistakes).To(BeEmpty())
			// One setting differs: in one cluster, the token requestor is disabled until a user configures which tokens Secrets may ask
			// for.
			together, _, err := config.ResourceManager([]byte(strings.Replace(each.Config, "tokenRequestor: {enabled: false}",
				"tokenRequestor: {enabled: true}", 1)))
			g.Expect(err).NotTo(HaveOccurred())
			together.TargetClientConnection = apart.TargetClientConnection
			g.Expect(apart).To(Equal(together), "nothing else differs")
		})
	}
}

// TestDeploymentsAreFitForAnyCluster checks everything that the shipped objects must have.
func TestDeploymentsAreFitForAnyCluster(t *testing.T) {
	for _, each := range deployable.All() {
		t.Run(each.Name, func(t *testing.T) {
			for kind, objects := range map[string][]client.Object{"one cluster": each.Objects("i:v1"), "two clusters": each.SourceObjects("i:v1")} {
				if kind == "one cluster" || each.HasTarget() {
					expectToBeFit(t, each, objects)
				}
			}
		})
	}
}

func expectToBeFit(t *testing.T, binary deployable.Binary, objects []client.Object) {
	t.Helper()
	g := NewWithT(t)
	deployment, account := only[*appsv1.Deployment](t, objects), only[*corev1.ServiceAccount](t, objects)
	service, budget := only[*corev1.Service](t, objects), only[*policyv1.PodDisruptionBudget](t, objects)
	pod, container := deployment.Spec.Template.Spec, deployment.Spec.Template.Spec.Containers[0]
	selector := map[string]string{"app.kubernetes.io/name": "espalier-" + binary.Name}

	g.Expect(*deployment.Spec.Replicas).To(BeEquivalentTo(2))
	g.Expect(deployment.Spec.Selector.MatchLabels).To(Equal(selector))
	g.Expect(service.Spec.Selector).To(Equal(selector))
	g.Expect(budget.Spec.Selector.MatchLabels).To(Equal(selector))
	g.Expect(budget.Spec.MaxUnavailable.IntValue()).To(Equal(1))
	g.Expect(pod.TopologySpreadConstraints[0].TopologyKey).To(Equal("kubernetes.io/hostname"))
	g.Expect(pod.TopologySpreadConstraints[0].LabelSelector.MatchLabels).To(Equal(selector))

	g.Expect(pod.ServiceAccountName).To(Equal(account.Name))
	g.Expect(*account.AutomountServiceAccountToken).To(BeFalse())
	g.Expect(*pod.SecurityContext.RunAsNonRoot).To(BeTrue())
	g.Expect(pod.SecurityContext.SeccompProfile.Type).To(BeEquivalentTo("RuntimeDefault"))
	g.Expect(*container.SecurityContext.AllowPrivilegeEscalation).To(BeFalse())
	g.Expect(*container.SecurityContext.ReadOnlyRootFilesystem).To(BeTrue())
	g.Expect(container.SecurityContext.Capabilities.Drop).To(HaveExactElements(BeEquivalentTo("ALL")))

	g.Expect(container.StartupProbe.HTTPGet.Path).To(Equal("/healthz/ping"))
	g.Expect(time.Duration(container.StartupProbe.PeriodSeconds*container.StartupProbe.FailureThreshold)*time.Second).
		To(BeNumerically(">", process.Patience+30*time.Second), "no probe ends a process that waits for its API server")
	g.Expect(container.LivenessProbe.HTTPGet.Path).To(Equal("/healthz/ping"))
	g.Expect(container.ReadinessProbe.HTTPGet.Path).To(Equal("/readyz"))
	for _, each := range []*corev1.Probe{container.StartupProbe, container.ReadinessProbe} {
		g.Expect(each.PeriodSeconds).To(BeEquivalentTo(1), "nothing waits for a binary that can answer")
	}
	g.Expect(container.ReadinessProbe.TimeoutSeconds*container.ReadinessProbe.FailureThreshold).To(BeEquivalentTo(15),
		"seconds until a binary that hangs is no longer used")
	g.Expect(container.Resources.Requests.Memory().IsZero()).To(BeFalse())
	g.Expect(container.Resources.Requests.Cpu().IsZero()).To(BeFalse())
	g.Expect(container.ImagePullPolicy).To(BeEquivalentTo("IfNotPresent"), "images are often loaded, and pulled from nowhere")

	labels := deployment.Spec.Template.Labels
	g.Expect(labels).To(HaveKeyWithValue("networking.gardener.cloud/to-dns", "allowed"))
	g.Expect(labels).To(HaveKeyWithValue("networking.gardener.cloud/to-runtime-apiserver", "allowed"))
	if binary.Name == "extension-controller" {
		for _, each := range []string{
			"networking.gardener.cloud/to-public-networks", "networking.gardener.cloud/to-private-networks",
			"networking.resources.gardener.cloud/to-virtual-garden-kube-apiserver-tcp-443",
		} {
			g.Expect(labels).To(HaveKeyWithValue(each, "allowed"), "the garden may have any address")
		}
	}
	annotations := map[string]string{
		"networking.resources.gardener.cloud/from-all-scrape-targets-allowed-ports": fmt.Sprintf(`[{"protocol":"TCP","port":%d}]`,
			binary.MetricsPort),
	}
	if binary.WebhookPort != 0 {
		annotations["networking.resources.gardener.cloud/from-world-to-ports"] = fmt.Sprintf(`[{"protocol":"TCP","port":%d}]`, binary.WebhookPort)
	}
	g.Expect(service.Annotations).To(Equal(annotations))
}

// only returns the object of a type, of which there must be exactly one.
func only[T client.Object](t *testing.T, objects []client.Object) T {
	t.Helper()
	var found []T
	for _, each := range objects {
		if object, ok := each.(T); ok {
			found = append(found, object)
		}
	}
	NewWithT(t).Expect(found).To(HaveLen(1))
	return found[0]
}

func TestTheTargetsCredentialsAreMountedWhereTheConfigurationLooks(t *testing.T) {
	for _, each := range deployable.All() {
		if !each.HasTarget() {
			continue
		}
		t.Run(each.Name, func(t *testing.T) {
			g := NewWithT(t)
			template := only[*appsv1.Deployment](t, each.SourceObjects("i:v1")).Spec.Template
			g.Expect(template.Spec.Containers[0].VolumeMounts).
				To(ContainElement(corev1.VolumeMount{Name: "target", MountPath: "/var/run/espalier/target", ReadOnly: true}))
			g.Expect(template.Spec.Volumes).To(ContainElement(corev1.Volume{Name: "target", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: "espalier-" + each.Name + "-target"},
			}}))
			g.Expect(template.Labels).To(HaveKeyWithValue("networking.gardener.cloud/to-public-networks", "allowed"))
			g.Expect(template.Labels).To(HaveKeyWithValue("networking.gardener.cloud/to-private-networks", "allowed"))
		})
	}
}

// TestRolesAreThoseThatAreShipped requires that every bound role is shipped, and every shipped role is bound or an exception.
func TestRolesAreThoseThatAreShipped(t *testing.T) {
	unbound := map[string][]string{
		// Gardener grants rights in the garden cluster to the user in the client certificate.
		"extension-controller": {
			"espalier-extension-controller-target", "garden/espalier-extension-controller-target",
			"kube-system/espalier-extension-controller-target",
		},
		// Administrators bind these roles to the users of the subcommands.
		"garden-operator": {
			"espalier-garden-operator-backup", "garden/espalier-garden-operator-backup",
			"espalier-garden-operator-restore", "garden/espalier-garden-operator-restore",
		},
		// cluster-admin includes the rights of narrower roles.
		"managedresource-controller": {
			"espalier-managedresource-controller-target-base", "espalier-managedresource-controller-target-garbagecollector",
		},
	}
	for _, each := range deployable.All() {
		t.Run(each.Name, func(t *testing.T) {
			g := NewWithT(t)
			bound := unbound[each.Name]
			for _, role := range each.Roles {
				if role.Name != "cluster-admin" {
					bound = append(bound, strings.TrimSuffix(role.Namespace+"/", "/")+"/"+role.Name)
				}
			}
			for i := range bound {
				bound[i] = strings.TrimPrefix(bound[i], "/")
			}
			var shipped []string
			for _, role := range objectsIn(t, filepath.Join(root(t), "deploy", each.Name, "rbac", "role.yaml")) {
				shipped = append(shipped, strings.TrimPrefix(role.GetNamespace()+"/"+role.GetName(), "/"))
			}
			slices.Sort(bound)
			slices.Sort(shipped)
			g.Expect(bound).To(Equal(shipped))
		})
	}
}

func objectsIn(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(file)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		if decoder.Decode(&object.Object) != nil {
			return objects
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// TestAnAPIServerTakesAllOfItUnderTheStrictestPodSecurity creates all objects, and Pods from the templates of the Deployments, in a
// namespace that enforces the Pod security standard restricted.
func TestAnAPIServerTakesAllOfItUnderTheStrictestPodSecurity(t *testing.T) {
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	c, err := client.New(servers.Source.Config, client.Options{Scheme: clientgoscheme.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "deployable-", Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest",
	}}}
	g.Expect(c.Create(t.Context(), namespace)).To(Succeed())
	for _, each := range deployable.All() {
		for _, object := range each.Objects("example.com/" + each.Name + ":v1") {
			if object.GetNamespace() != "" {
				object.SetNamespace(namespace.Name) // in the test's namespace, so that the objects of other tests are not changed
			} else {
				object.SetName(namespace.Name + object.GetName())
			}
			g.Expect(c.Create(t.Context(), object)).To(Succeed(), "%s %s", object.GetObjectKind().GroupVersionKind().Kind, object.GetName())
			if deployment, ok := object.(*appsv1.Deployment); ok {
				pod := &corev1.Pod{ObjectMeta: deployment.Spec.Template.ObjectMeta, Spec: deployment.Spec.Template.Spec}
				pod.Namespace, pod.GenerateName = namespace.Name, each.Name+"-"
				if each.Critical {
					pod.Spec.PriorityClassName = namespace.Name + pod.Spec.PriorityClassName
				}
				g.Expect(c.Create(t.Context(), pod)).To(Succeed())
			}
		}
	}
	loose := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "loose"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	g.Expect(c.Create(t.Context(), loose)).To(MatchError(ContainSubstring("violates PodSecurity")), "the standard is enforced")
}
