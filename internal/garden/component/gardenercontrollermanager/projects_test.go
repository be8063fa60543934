package gardenercontrollermanager_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/garden/component/gardenercontrollermanager"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// The definition of Projects would disturb tests of other packages.
func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }

func project() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Project", "metadata": map[string]any{"name": "cellar"},
	}}
}

func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func quota(name string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func clusterRole(name string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestPolicyKeepsProjectsFromGardenerControllerManagerOnly(t *testing.T) {
	g := NewWithT(t)
	servers := binary.Servers(t)
	as := func(account string) client.Client {
		config := rest.CopyConfig(servers.Source.Config)
		config.Impersonate = rest.ImpersonationConfig{
			UserName: "system:serviceaccount:kube-system:" + account, Groups: []string{"system:masters"},
		}
		c, failure := client.New(config, client.Options{})
		g.Expect(failure).NotTo(HaveOccurred())
		return c
	}
	manager, other := as("gardener-controller-manager"), as("project-controller")
	deploy(t, other)

	refused := func(c client.Client, o client.Object) error {
		return c.Create(t.Context(), o, client.DryRunAll)
	}
	g.Eventually(func() error { return refused(manager, project()) }, binary.Patience, 100*time.Millisecond).Should(
		MatchError(ContainSubstring("project-controller reconciles Projects in place of gardener-controller-manager")))

	ofProject := map[string]string{"gardener.cloud/role": "project"}
	for sentence, tc := range map[string]struct {
		object  client.Object
		refused bool
	}{
		"a Project":                      {object: project(), refused: true},
		"a namespace of a project":       {object: namespace("garden-cellar", ofProject), refused: true},
		"a namespace of a Seed":          {object: namespace("seed-a", map[string]string{"gardener.cloud/role": "seed"})},
		"a namespace without labels":     {object: namespace("a", nil)},
		"the quota of a project":         {object: quota("gardener"), refused: true},
		"another quota":                  {object: quota("other")},
		"a role of members":              {object: clusterRole("gardener.cloud:system:project-member:cellar"), refused: true},
		"a role of owners":               {object: clusterRole("gardener.cloud:system:project:cellar"), refused: true},
		"a role of an extension":         {object: clusterRole("gardener.cloud:extension:project:cellar:a"), refused: true},
		"a role that is not a project's": {object: clusterRole("gardener.cloud:system:seeds")},
	} {
		t.Run(sentence, func(t *testing.T) {
			own := NewWithT(t)
			own.Expect(refused(other, tc.object.DeepCopyObject().(client.Object))).To(Succeed()) //nolint:errcheck,forcetypeassert // it is one
			err := refused(manager, tc.object)
			own.Expect(apierrors.IsForbidden(err)).To(Equal(tc.refused), "%v", err)
			if !tc.refused {
				own.Expect(err).NotTo(HaveOccurred())
			}
		})
	}
	t.Run("changes of a quota", func(t *testing.T) {
		own := NewWithT(t)
		o := quota("gardener")
		own.Expect(other.Create(t.Context(), o)).To(Succeed())
		o.Spec.Hard = corev1.ResourceList{"count/secrets": resource.MustParse("9")}
		own.Expect(manager.Update(t.Context(), o.DeepCopy(), client.DryRunAll)).To(Succeed())
		own.Expect(apierrors.IsForbidden(manager.Delete(t.Context(), o))).To(BeTrue())
	})
	t.Run("changes and deletions", func(t *testing.T) {
		own := NewWithT(t)
		o := namespace("garden-cellar", ofProject)
		own.Expect(other.Create(t.Context(), o)).To(Succeed())
		own.Expect(apierrors.IsForbidden(manager.Delete(t.Context(), o.DeepCopy()))).To(BeTrue())
		o.Labels = nil
		own.Expect(apierrors.IsForbidden(manager.Update(t.Context(), o))).To(BeTrue())
	})
}

// deploy installs the definition of Projects, and deploys the objects in the virtual cluster.
func deploy(t *testing.T, c client.Client) {
	t.Helper()
	g := NewWithT(t)
	root, err := local.RepositoryRoot()
	g.Expect(err).NotTo(HaveOccurred())
	content, err := os.ReadFile(filepath.Join(root, "deploy", "project-controller", "crds", "core.gardener.cloud_projects.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	definition := &unstructured.Unstructured{}
	g.Expect(yaml.Unmarshal(content, &definition.Object)).To(Succeed())
	g.Expect(c.Create(t.Context(), definition)).To(Succeed())
	objects, err := rollout.Unstructured(gardenercontrollermanager.VirtualObjects(true)...)
	g.Expect(err).NotTo(HaveOccurred())
	for _, each := range objects {
		g.Expect(c.Create(t.Context(), each)).To(Succeed(), each.GetName())
	}
	g.Eventually(func() error {
		return c.Create(t.Context(), project(), client.DryRunAll)
	}, binary.Patience, 100*time.Millisecond).ShouldNot(Satisfy(func(err error) bool {
		return meta.IsNoMatchError(err) || apierrors.IsNotFound(err)
	}))
}
