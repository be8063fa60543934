package deploy_test

import (
	"log/slog"
	"testing"

	. "github.com/onsi/gomega"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// cluster is an API server with a namespace, in which only Pods of the restricted Pod security standard are allowed, and a Helm client.
type cluster struct {
	client.Client

	t             *testing.T
	configuration *action.Configuration
	namespace     string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	c, err := client.New(servers.Source.Config, client.Options{Scheme: clientgoscheme.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	created := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "chart-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}},
	}
	g.Expect(c.Create(t.Context(), created)).To(Succeed())
	kubeconfig := binary.WriteKubeconfig(t, servers.Source.Kubeconfig)
	flags := genericclioptions.NewConfigFlags(true)
	flags.KubeConfig, flags.Namespace = ptr.To(kubeconfig), ptr.To(created.Name)
	configuration := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	g.Expect(configuration.Init(flags, created.Name, "secret")).To(Succeed())
	return &cluster{Client: c, t: t, configuration: configuration, namespace: created.Name}
}

func (c *cluster) install(name string, values map[string]any) error {
	c.t.Helper()
	install := action.NewInstall(c.configuration)
	install.ReleaseName, install.Namespace, install.WaitStrategy = name, c.namespace, kube.HookOnlyStrategy
	_, err := install.Run(loadChart(c.t), values)
	return err
}

func (c *cluster) upgrade(name, version string, values map[string]any) error {
	c.t.Helper()
	upgrade := action.NewUpgrade(c.configuration)
	upgrade.Namespace, upgrade.WaitStrategy = c.namespace, kube.HookOnlyStrategy
	next := loadChart(c.t)
	next.Metadata.Version, next.Metadata.AppVersion = version, "v"+version
	_, err := upgrade.Run(name, next, values)
	return err
}

func (c *cluster) deployments() map[string]string {
	c.t.Helper()
	list := &appsv1.DeploymentList{}
	NewWithT(c.t).Expect(c.List(c.t.Context(), list, client.InNamespace(c.namespace))).To(Succeed())
	images := map[string]string{}
	for _, each := range list.Items {
		images[each.Name] = each.Spec.Template.Spec.Containers[0].Image
	}
	return images
}

// TestAReleaseFromInstallToUninstall sends the requests of Helm to an API server, and counts the objects that remain in the end.
func TestAReleaseFromInstallToUninstall(t *testing.T) {
	g := NewWithT(t)
	c := newCluster(t)
	g.Expect(c.install("espalier", nil)).To(Succeed())
	g.Expect(c.deployments()).To(Equal(images("v0.0.0-dev")))
	c.expectPodsToBeTaken()

	g.Expect(c.upgrade("espalier", "1.0.0", parse(t, "nodeController: {enabled: false}"))).To(Succeed())
	upgraded := images("v1.0.0")
	delete(upgraded, "espalier-node-controller")
	g.Expect(c.deployments()).To(Equal(upgraded))

	rollback := action.NewRollback(c.configuration)
	rollback.Version, rollback.WaitStrategy, rollback.ServerSideApply = 1, kube.HookOnlyStrategy, "auto"
	g.Expect(rollback.Run("espalier")).To(Succeed())
	g.Expect(c.deployments()).To(Equal(images("v0.0.0-dev")))

	set := c.aSet()
	uninstall := action.NewUninstall(c.configuration)
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	_, err := uninstall.Run("espalier")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.deployments()).To(BeEmpty())
	for _, id := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "espalier-webhook-server-target"}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "espalier-managedresource-controller-cluster-admin"}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "espalier-managedresource-controller-cluster-identity"}},
	} {
		g.Expect(apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(id), id))).To(BeTrue(), id.GetName())
	}
	g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(set), set)).To(Succeed(), "CRDs stay, and with them what users wrote")
	g.Expect(set.GetDeletionTimestamp()).To(BeNil())

	g.Expect(c.install("espalier", nil)).To(Succeed(), "after an uninstallation")
	_, err = uninstall.Run("espalier")
	g.Expect(err).NotTo(HaveOccurred())
}

// TestHelmTakesOverObjectsOfKubectl installs the chart over objects that kubectl has applied, with the flags that docs/deploying.md
// describes. Fields in which the values differ, here the replicas and the image, belong to kubectl before.
func TestHelmTakesOverObjectsOfKubectl(t *testing.T) {
	g := NewWithT(t)
	c := newCluster(t)
	rendered, err := template(t, c.namespace, parse(t, "{image: {tag: v0.9.0}, csrApprover: {replicas: 1}}"))
	g.Expect(err).NotTo(HaveOccurred())
	for id, fields := range decode(t, []byte(rendered)) {
		configuration := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: fields})
		g.Expect(c.Apply(t.Context(), configuration, client.FieldOwner("kubectl"))).To(Succeed(), id)
	}
	install := action.NewInstall(c.configuration)
	install.ReleaseName, install.Namespace, install.WaitStrategy = "espalier", c.namespace, kube.HookOnlyStrategy
	install.TakeOwnership = true
	_, err = install.Run(loadChart(t), nil)
	g.Expect(err).To(MatchError(ContainSubstring("conflict")), "without --force-conflicts")
	install.ForceConflicts, install.Replace = true, true
	_, err = install.Run(loadChart(t), nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.deployments()).To(Equal(images("v0.0.0-dev")))
	uninstall := action.NewUninstall(c.configuration)
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	_, err = uninstall.Run("espalier")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.deployments()).To(BeEmpty())
}

// TestOneReleaseInACluster requires that a second release is refused: it would take over the roles of the first.
func TestOneReleaseInACluster(t *testing.T) {
	g := NewWithT(t)
	first, second := newCluster(t), newCluster(t)
	g.Expect(first.install("first", parse(t, "managedresourceController: {replicas: 0}"))).To(Succeed())
	g.Expect(second.install("second", nil)).To(MatchError(ContainSubstring("invalid ownership metadata")))
	uninstall := action.NewUninstall(first.configuration)
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	_, err := uninstall.Run("first")
	g.Expect(err).NotTo(HaveOccurred())
}

func images(version string) map[string]string {
	images := map[string]string{}
	for _, each := range deployable.All() {
		if !each.OffTogether {
			images["espalier-"+each.Name] = "espalier.local/" + each.Name + ":" + version
		}
	}
	return images
}

// expectPodsToBeTaken sends a dry run of a Pod of each Deployment, which the API server must accept.
func (c *cluster) expectPodsToBeTaken() {
	c.t.Helper()
	g := NewWithT(c.t)
	list := &appsv1.DeploymentList{}
	g.Expect(c.List(c.t.Context(), list, client.InNamespace(c.namespace))).To(Succeed())
	for _, each := range list.Items {
		pod := &corev1.Pod{ObjectMeta: each.Spec.Template.ObjectMeta, Spec: each.Spec.Template.Spec}
		pod.Namespace, pod.Name = c.namespace, each.Name
		g.Expect(c.Create(c.t.Context(), pod, client.DryRunAll)).To(Succeed(), each.Name)
	}
	loose := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "loose"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	// Until a controller has created the ServiceAccount default, the Pod is refused for another reason.
	g.Eventually(func() error { return c.Create(c.t.Context(), loose, client.DryRunAll) }, binary.Patience).
		Should(MatchError(ContainSubstring("violates PodSecurity")), "the standard is enforced")
}

// aSet creates a ManagedResource, which an uninstallation must not delete.
func (c *cluster) aSet() *unstructured.Unstructured {
	c.t.Helper()
	set := &unstructured.Unstructured{}
	set.SetGroupVersionKind(schema.GroupVersionKind{Group: "resources.gardener.cloud", Version: "v1alpha1", Kind: "ManagedResource"})
	set.SetNamespace(c.namespace)
	set.SetName("of-a-user")
	NewWithT(c.t).Expect(unstructured.SetNestedSlice(set.Object, []any{map[string]any{"name": "content"}}, "spec", "secretRefs")).To(Succeed())
	NewWithT(c.t).Expect(c.Create(c.t.Context(), set)).To(Succeed())
	return set
}
